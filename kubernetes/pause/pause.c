/* What holds the namespaces of a pod open: it sleeps, and as PID 1 of a pod
 * that shares processes it reaps whoever is orphaned there. Called with -v it
 * says its version and ends: `kubeadm upgrade` tries with that whether a job
 * runs to its end. */
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static void leave(int signal) {
  (void)signal;
  _exit(0);
}

static void reap(int signal) {
  (void)signal;
  while (waitpid(-1, NULL, WNOHANG) > 0) {
  }
}

int main(int count, char **arguments) {
  if (count > 1 && strcmp(arguments[1], "-v") == 0) {
    puts("pause " VERSION);
    return 0;
  }
  struct sigaction children = {.sa_handler = reap, .sa_flags = SA_NOCLDSTOP};
  signal(SIGINT, leave);
  signal(SIGTERM, leave);
  sigaction(SIGCHLD, &children, NULL);
  for (;;) {
    pause();
  }
}

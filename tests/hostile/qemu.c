/* An emulator that has been taken over: where QEMU should be, this runs and
 * tries to get out. It is built by the test. What the node asks of a QEMU to
 * find out what it can do, the real one answers; started as a guest, it says
 * what became of each attempt, a line each, "NAME=ERRNO", "NAME=0" for one
 * that went well. Files to try are in the kernel's command line: "try=PATH". */
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

static void say(const char *name, long answer) {
    dprintf(1, "%s=%d\n", name, answer < 0 ? errno : 0);
}

#define TRY(name, call) do { errno = 0; say(name, (long)(call)); } while (0)

static void try_open(const char *name, const char *path, int flags) {
    errno = 0;
    int fd = open(path, flags, 0600);
    say(name, fd);
    if (fd >= 0) close(fd);
}

static void *thread(void *unused) { return unused; }

/* A process that should not have come to be says so and ends. */
static void try_process(const char *name, long pid) {
    if (pid == 0) _exit(0);
    say(name, pid);
    if (pid > 0) waitpid((pid_t)pid, NULL, 0);
}

static long by_other_architecture(void) {
    long answer;
    __asm__ volatile("int $0x80" : "=a"(answer) : "a"(20L) : "memory", "r8", "r9", "r10", "r11");
    if (answer < 0) { errno = (int)-answer; return -1; }
    return answer;
}

static void try_files(int argc, char **argv) {
    try_open("write-core-pattern", "/proc/sys/kernel/core_pattern", O_WRONLY);
    try_open("write-overcommit", "/proc/sys/vm/overcommit_memory", O_WRONLY);
    try_open("read-proc-status", "/proc/self/status", O_RDONLY);
    try_open("read-init-root", "/proc/1/root", O_RDONLY);
    try_open("read-sys", "/sys/kernel", O_RDONLY);
    try_open("read-shadow", "/etc/shadow", O_RDONLY);
    try_open("read-passwd", "/etc/passwd", O_RDONLY);
    try_open("run-shell-file", "/bin/sh", O_RDONLY);
    try_open("open-kvm", "/dev/kvm", O_RDWR);
    try_open("open-tun", "/dev/net/tun", O_RDWR);
    try_open("make-in-root", "/made", O_WRONLY | O_CREAT);
    try_open("make-in-dev", "/dev/made", O_WRONLY | O_CREAT);
    try_open("make-in-jail", "/strata/made", O_WRONLY | O_CREAT);
    try_open("write-itself", argv[0], O_WRONLY);
    try_open("write-kernel", "/boot/kernel", O_WRONLY);
    TRY("mkdir", mkdir("/made", 0755));
    TRY("symlink", symlink("/", "/dev/made"));
    TRY("unlink", unlink("/dev/null"));
    TRY("rename", rename("/dev/null", "/dev/made"));
    TRY("mknod", mknod("/dev/made", S_IFCHR | 0600, 0x0800));
    TRY("chmod", chmod("/", 0777));
    TRY("chown", chown("/dev/null", 0, 0));
    for (int i = 1; i + 1 < argc; i++) {
        if (strcmp(argv[i], "-append") != 0) continue;
        int number = 0;
        for (char *word = strtok(strdup(argv[i + 1]), " "); word; word = strtok(NULL, " ")) {
            if (strncmp(word, "try=", 4) != 0) continue;
            char name[32];
            snprintf(name, sizeof name, "read-%d", number);
            try_open(name, word + 4, O_RDONLY);
            snprintf(name, sizeof name, "connect-%d", number++);
            struct sockaddr_un address = {.sun_family = AF_UNIX};
            strncpy(address.sun_path, word + 4, sizeof address.sun_path - 1);
            errno = 0;
            int fd = socket(AF_UNIX, SOCK_STREAM, 0);
            say(name, fd < 0 ? fd : connect(fd, (void *)&address, sizeof address));
        }
    }
}

/* A library can be executed where the mounts alone decide. */
static void try_library(int argc, char **argv, char **envp) {
    Dl_info info;
    for (int i = 1; i + 1 < argc; i++)
        if (!strcmp(argv[i], "-append") && strstr(argv[i + 1], "landlock") && dladdr(printf, &info))
            TRY("exec-library", execve(info.dli_fname, argv, envp));
}

static void try_processes(char **argv, char **envp) {
    pthread_t id;
    errno = pthread_create(&id, NULL, thread, NULL);
    say("thread", errno ? -1 : 0);
    if (!errno) pthread_join(id, NULL);
    try_process("fork", syscall(SYS_fork));
    try_process("clone", syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0));
    try_process("clone-user", syscall(SYS_clone, SIGCHLD | CLONE_NEWUSER, 0, 0, 0, 0));
    TRY("vfork", syscall(SYS_clone, CLONE_VM | CLONE_VFORK | CLONE_NEWPID, 0, 0, 0, 0));
    TRY("clone3", syscall(SYS_clone3, NULL, 0));
    char *shell[] = {"/bin/sh", "-c", "echo pwned", NULL};
    TRY("exec-shell", execve(shell[0], shell, envp));
    TRY("exec-jail", execve("/boot/kernel", argv, envp));
    TRY("execveat", syscall(SYS_execveat, AT_FDCWD, argv[0], argv, envp, 0));
    TRY("memfd", memfd_create("x", 0));
    TRY("ptrace-me", ptrace(PTRACE_TRACEME, 0, 0, 0));
    TRY("ptrace-init", ptrace(PTRACE_ATTACH, 1, 0, 0));
    struct iovec part = {.iov_base = &part, .iov_len = 1};
    TRY("read-init", process_vm_readv(1, &part, 1, &part, 1, 0));
    TRY("pidfd", syscall(SYS_pidfd_open, 1, 0));
    TRY("kill-init", kill(1, SIGKILL));
    TRY("tgkill-init", syscall(SYS_tgkill, 1, 1, SIGKILL));
}

static void try_kernel(void) {
    TRY("unshare-user", unshare(CLONE_NEWUSER));
    TRY("unshare-mount", unshare(CLONE_NEWNS));
    TRY("setns", setns(0, 0));
    TRY("mount", mount("none", "/dev", "tmpfs", 0, NULL));
    TRY("umount", umount2("/dev", MNT_DETACH));
    TRY("open-tree", syscall(SYS_open_tree, AT_FDCWD, "/", 1));
    TRY("fsopen", syscall(SYS_fsopen, "tmpfs", 0));
    TRY("pivot-root", syscall(SYS_pivot_root, "/", "/"));
    TRY("chroot", chroot("/dev"));
    TRY("bpf", syscall(SYS_bpf, 0, NULL, 0));
    TRY("perf", syscall(SYS_perf_event_open, NULL, 0, -1, -1, 0));
    TRY("keyctl", syscall(SYS_keyctl, 0, -3, 1));
    TRY("io-uring", syscall(SYS_io_uring_setup, 1, NULL));
    TRY("userfaultfd", syscall(SYS_userfaultfd, 0));
    TRY("by-handle", syscall(SYS_open_by_handle_at, AT_FDCWD, NULL, 0));
    TRY("module", syscall(SYS_init_module, NULL, 0, ""));
    TRY("kexec", syscall(SYS_kexec_load, 0, 0, NULL, 0));
    TRY("reboot", syscall(SYS_reboot, 0, 0, 0, NULL));
    TRY("other-architecture", by_other_architecture());
    TRY("x32", syscall(0x40000000 | SYS_getpid));
    TRY("unknown", syscall(500));
    TRY("dumpable", prctl(PR_SET_DUMPABLE, 1, 0, 0, 0));
    TRY("keep-capabilities", prctl(PR_SET_KEEPCAPS, 1, 0, 0, 0));
    TRY("become-root", setresuid(0, 0, 0));
    TRY("become-group", setresgid(0, 0, 0));
    TRY("groups", setgroups(0, NULL));
    TRY("socket-unix", socket(AF_UNIX, SOCK_STREAM, 0));
    TRY("socket-inet", socket(AF_INET, SOCK_STREAM, 0));
    TRY("socket-netlink", socket(AF_NETLINK, SOCK_RAW, 0));
    TRY("socket-vsock", socket(AF_VSOCK, SOCK_STREAM, 0));
}

/* What it has: descriptors by their types, and what is in the root. */
static void show(void) {
    dprintf(1, "uid %d %d gid %d %d groups %d\n", getuid(), geteuid(), getgid(), getegid(),
            getgroups(0, NULL));
    for (int fd = 0; fd < 4096; fd++) {
        struct stat stat;
        if (fstat(fd, &stat) == 0) dprintf(1, "fd %d %o\n", fd, stat.st_mode & S_IFMT);
    }
    DIR *root = opendir("/");
    for (struct dirent *entry; root && (entry = readdir(root));)
        if (entry->d_name[0] != '.') dprintf(1, "root %s\n", entry->d_name);
    if (root) closedir(root);
}

int main(int argc, char **argv, char **envp) {
    for (int i = 1; i < argc; i++) {
        const char *word = argv[i];
        if (!strcmp(word, "--version") || !strcmp(word, "-L") || !strcmp(word, "-bios")) {
            execve(REAL_QEMU, argv, envp);
            return 1;
        }
    }
    show();
    try_files(argc, argv);
    try_kernel();
    try_processes(argv, envp);
    try_library(argc, argv, envp);
    dprintf(1, "done\n");
    return 0;
}

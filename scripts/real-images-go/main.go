// A server as images for Go have it: static, alone in its image, of a user that
// no file names. scripts/real-images packs it.
package main

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"os/signal"
	"os/user"
	"runtime"
	"syscall"
	"time"
)

func main() {
	_, unknown := user.LookupId(fmt.Sprint(os.Getuid()))
	write := os.WriteFile("/written", []byte("x"), 0o600)
	fmt.Println("GOMAXPROCS", runtime.GOMAXPROCS(0))
	fmt.Println("uid", os.Getuid(), "unknown", unknown != nil, "read-only", write != nil)
	server := &http.Server{Addr: ":8080"}
	http.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, "hello from go")
	})
	stop, end := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer end()
	go func() {
		<-stop.Done()
		last, done := context.WithTimeout(context.Background(), 5*time.Second)
		defer done()
		server.Shutdown(last)
	}()
	fmt.Println("ready")
	if err := server.ListenAndServe(); err != http.ErrServerClosed {
		fmt.Println(err)
		os.Exit(1)
	}
	fmt.Println("drained")
}

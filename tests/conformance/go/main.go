// A client of grpc-go on a node's Unix socket, as it comes: nothing is said of
// the authority, which the library makes itself.
//
//	client SOCKET
//
// Messages are written by the field numbers of the published document
// (runtime, observe). Prints a line for each way; exits with 1 when one fails.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	health "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protowire"
)

// raw sends and receives messages as bytes.
type raw struct{}

func (raw) Name() string                       { return "proto" }
func (raw) Marshal(v any) ([]byte, error)      { return *v.(*[]byte), nil }
func (raw) Unmarshal(data []byte, v any) error { *v.(*[]byte) = append([]byte(nil), data...); return nil }

func text(field protowire.Number, value string) []byte {
	return protowire.AppendString(protowire.AppendTag(nil, field, protowire.BytesType), value)
}

func inside(field protowire.Number, message []byte) []byte {
	return protowire.AppendBytes(protowire.AppendTag(nil, field, protowire.BytesType), message)
}

func join(parts ...[]byte) []byte {
	var all []byte
	for _, part := range parts {
		all = append(all, part...)
	}
	return all
}

func call(ctx context.Context, conn *grpc.ClientConn, method string, ask []byte) ([]byte, error) {
	var answer []byte
	err := conn.Invoke(ctx, method, &ask, &answer, grpc.ForceCodec(raw{}))
	return answer, err
}

// healthy calls a service of generated stubs, many at once.
func healthy(ctx context.Context, conn *grpc.ClientConn) error {
	client := health.NewHealthClient(conn)
	var group sync.WaitGroup
	failed := make(chan error, 100)
	for range 100 {
		group.Go(func() {
			answer, err := client.Check(ctx, &health.HealthCheckRequest{})
			if err == nil && answer.Status != health.HealthCheckResponse_SERVING {
				err = fmt.Errorf("health is %v", answer.Status)
			}
			if err != nil {
				failed <- err
			}
		})
	}
	group.Wait()
	close(failed)
	return <-failed
}

// cell goes through the life of a cell and its executable.
func cell(ctx context.Context, conn *grpc.ClientConn, name string) error {
	cell := inside(1, text(1, name))
	answer, err := call(ctx, conn, "/runtime.CellService/Allocate", cell)
	if err != nil {
		return fmt.Errorf("Allocate: %w", err)
	}
	field, _, n := protowire.ConsumeTag(answer)
	if said, _ := protowire.ConsumeString(answer[n:]); field != 1 || said != name {
		return fmt.Errorf("Allocate answered %q", answer)
	}
	executable := join(text(1, "main"), text(2, "sleep 1000"), text(4, name))
	if _, err := call(ctx, conn, "/runtime.CellService/Start", inside(1, executable)); err != nil {
		return fmt.Errorf("Start: %w", err)
	}
	stop := join(text(1, name), text(2, "main"))
	if _, err := call(ctx, conn, "/runtime.CellService/Stop", stop); err != nil {
		return fmt.Errorf("Stop: %w", err)
	}
	for range 2 {
		if _, err := call(ctx, conn, "/runtime.CellService/Free", text(1, name)); err != nil {
			return fmt.Errorf("Free: %w", err)
		}
	}
	_, err = call(ctx, conn, "/runtime.CellService/Free", text(1, "never-known"))
	if status.Code(err) != codes.NotFound {
		return fmt.Errorf("Free of an unknown cell: %v", err)
	}
	return nil
}

// log reads the first line of the daemon's log, and ends the stream.
func log(ctx context.Context, conn *grpc.ClientConn) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := conn.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true},
		"/observe.Observe/GetAuraeDaemonLogStream", grpc.ForceCodec(raw{}))
	if err != nil {
		return err
	}
	var ask, item []byte
	if err := errors.Join(stream.SendMsg(&ask), stream.CloseSend()); err != nil {
		return err
	}
	if err := stream.RecvMsg(&item); err != nil || len(item) == 0 {
		return fmt.Errorf("GetAuraeDaemonLogStream: %q, %v", item, err)
	}
	cancel()
	for err = nil; err == nil; err = stream.RecvMsg(&item) {
	}
	if status.Code(err) != codes.Canceled && !errors.Is(err, io.EOF) {
		return fmt.Errorf("after its end: %v", err)
	}
	return nil
}

func drive(target, name string) error {
	conn, err := grpc.NewClient(target, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return err
	}
	defer conn.Close()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := healthy(ctx, conn); err != nil {
		return err
	}
	if err := cell(ctx, conn, name); err != nil {
		return err
	}
	return log(ctx, conn)
}

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "client SOCKET")
		os.Exit(2)
	}
	for n, way := range []string{"unix:", "unix://"} {
		if err := drive(way+os.Args[1], fmt.Sprintf("grpc-go-%d", n)); err != nil {
			fmt.Fprintf(os.Stderr, "%sPATH: %v\n", way, err)
			os.Exit(1)
		}
		fmt.Println(way + "PATH")
	}
}

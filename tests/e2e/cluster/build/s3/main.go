// Command s3 serves a folder as an S3 endpoint: the gateway's POSIX back end, without its other back ends and its test suite.
// In front of it stands a switch: while the fault file exists, every request is answered with 503 SlowDown.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/versity/versitygw/backend/meta"
	"github.com/versity/versitygw/backend/posix"
	"github.com/versity/versitygw/embedgw"
)

const gatewaySocket = "@rayjob-archiver-s3"

func main() {
	if len(os.Args) < 5 {
		fmt.Fprintln(os.Stderr, "usage: S3_ACCESS_KEY=… S3_SECRET_KEY=… s3 FAULT-FILE OBJECTS VERSIONS ADDRESS...")
		os.Exit(2)
	}
	if err := serve(os.Args[1], os.Args[2], os.Args[3], os.Args[4:]); err != nil {
		fmt.Fprintf(os.Stderr, "s3: %s\n", err)
		os.Exit(1)
	}
}

func serve(fault, objects, versions string, addresses []string) error {
	if err := (meta.XattrMeta{}).Test(objects); err != nil {
		return fmt.Errorf("%s: the file system keeps no extended attributes: %w", objects, err)
	}
	folder, err := posix.New(objects, meta.XattrMeta{}, posix.PosixOpts{VersioningDir: versions, Concurrency: 256})
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	ended := make(chan error, len(addresses)+1)
	for _, address := range addresses {
		go func() { ended <- listen(address, fault) }()
	}
	go func() { ended <- embedgw.RunVersityGW(ctx, folder, gateway()) }()
	return <-ended
}

func gateway() *embedgw.Config {
	return &embedgw.Config{
		RootUserAccess:    os.Getenv("S3_ACCESS_KEY"),
		RootUserSecret:    os.Getenv("S3_SECRET_KEY"),
		Ports:             []string{gatewaySocket},
		HealthPath:        "/healthz",
		MaxConnections:    4096,
		MaxRequests:       1024,
		MultipartMaxParts: 10000,
		KeepAlive:         true,
		Quiet:             true,
	}
}

// Command imageload hands a docker-archive from its standard input to containerd and unpacks the images:
// what `ctr images import` does, without the rest of ctr.
package main

import (
	"context"
	"fmt"
	"os"

	containerd "github.com/containerd/containerd/v2/client"
	"github.com/containerd/containerd/v2/pkg/namespaces"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: imageload SOCKET < ARCHIVE")
		os.Exit(2)
	}
	if err := load(os.Args[1]); err != nil {
		fmt.Fprintf(os.Stderr, "imageload: %s\n", err)
		os.Exit(1)
	}
}

func load(socket string) error {
	client, err := containerd.New(socket)
	if err != nil {
		return err
	}
	defer client.Close()
	ctx := namespaces.WithNamespace(context.Background(), "k8s.io")
	images, err := client.Import(ctx, os.Stdin)
	if err != nil {
		return err
	}
	for _, image := range images {
		if err := containerd.NewImage(client, image).Unpack(ctx, ""); err != nil {
			return fmt.Errorf("unpack %s: %w", image.Name, err)
		}
		fmt.Println(image.Name)
	}
	return nil
}

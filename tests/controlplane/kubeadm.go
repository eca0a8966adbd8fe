//go:build !nokubeadm

package main

import (
	"context"
	"os"

	"k8s.io/component-base/cli"
	"k8s.io/kubernetes/cmd/kubeadm/app/cmd"
)

func init() {
	commands = append(commands, command{"kubeadm", "the real kubeadm; takes its own flags", true, kubeadm})
}

func kubeadm(_ context.Context, args []string) error {
	os.Args = append([]string{"kubeadm"}, args...)
	os.Exit(cli.Run(cmd.NewKubeadmCommand(os.Stdin, os.Stdout, os.Stderr)))
	return nil
}

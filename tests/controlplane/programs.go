package main

import (
	"context"
	"os"

	"github.com/spf13/cobra"
	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/logs/json/register"
	_ "k8s.io/component-base/metrics/prometheus/clientgo"
	_ "k8s.io/component-base/metrics/prometheus/version"
	kubectl "k8s.io/kubectl/pkg/cmd"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	controllermanager "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	proxy "k8s.io/kubernetes/cmd/kube-proxy/app"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"
	kubeadm "k8s.io/kubernetes/cmd/kubeadm/app/cmd"
	kubelet "k8s.io/kubernetes/cmd/kubelet/app"
)

// Kubernetes' own programs, each with its own flags. All of them are in this one binary, because it links in a third of
// the time of seven.
func init() {
	for _, p := range []struct {
		name   string
		create func() *cobra.Command
	}{
		{"apiserver", apiserver.NewAPIServerCommand},
		{"kube-controller-manager", controllermanager.NewControllerManagerCommand},
		{"kube-scheduler", func() *cobra.Command { return scheduler.NewSchedulerCommand() }},
		{"kubelet", func() *cobra.Command { return kubelet.NewKubeletCommand(context.Background()) }},
		{"kube-proxy", proxy.NewProxyCommand},
		{"kubectl", kubectl.NewDefaultKubectlCommand},
		{"kubeadm", func() *cobra.Command { return kubeadm.NewKubeadmCommand(os.Stdin, os.Stdout, os.Stderr) }},
	} {
		commands = append(commands, command{p.name, "the real " + p.name + "; takes its own flags", true,
			func(_ context.Context, args []string) error {
				// Several of them read the arguments of the process themselves.
				os.Args = append([]string{p.name}, args...)
				os.Exit(cli.Run(p.create()))
				return nil
			}})
	}
}

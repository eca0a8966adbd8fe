// kube-apiserver of another Kubernetes version, without other parts: `ctl up -apiserver FILE` runs it instead of its
// own. Each k8s-VERSION.mod next to this file selects a version (go build -modfile), so one source is built against all
// of them.
package main

import (
	"os"

	"k8s.io/component-base/cli"
	"k8s.io/kubernetes/cmd/kube-apiserver/app"
)

// The first argument is the name of the part, as ctl passes it to itself.
func main() {
	if len(os.Args) > 1 && os.Args[1] == "apiserver" {
		os.Args = append(os.Args[:1], os.Args[2:]...)
	}
	os.Exit(cli.Run(app.NewAPIServerCommand()))
}

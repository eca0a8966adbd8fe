// kube-apiserver of another Kubernetes version, and nothing else: `ctl up -apiserver FILE` runs it in place of its own. Each k8s-VERSION.mod
// beside this file names a version (go build -modfile), so one source is built against all of them.
package main

import (
	"os"

	"k8s.io/component-base/cli"
	"k8s.io/kubernetes/cmd/kube-apiserver/app"
)

// The first argument is the part's name, as ctl passes it to itself.
func main() {
	if len(os.Args) > 1 && os.Args[1] == "apiserver" {
		os.Args = append(os.Args[:1], os.Args[2:]...)
	}
	os.Exit(cli.Run(app.NewAPIServerCommand()))
}

//go:build tools

package main

// Kubernetes' own tests of a cluster, and the program of their pods. They come from this module, so that they have the
// versions of the others.
import (
	_ "k8s.io/kubernetes/test/e2e"
	_ "k8s.io/kubernetes/test/images/agnhost"
)

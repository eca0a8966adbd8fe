// helm renders a chart as `helm template` does, with Helm's own engine, for the tests.
//
//	helm [-f VALUES]... [-set KEY=VALUE]... [-set-string KEY=VALUE]... [-kube VERSION] [-n NAMESPACE] [-cluster OBJECTS] [-notes] NAME CHART
//
// -cluster is a JSON file with a list of objects. The function lookup of the templates finds these.
// It prints the objects, or with -notes what NOTES.txt says; values that the chart's schema refuses are an error.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"sort"
	"strings"

	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"
	"helm.sh/helm/v3/pkg/strvals"
	"k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
)

type list []string

func (l *list) String() string     { return strings.Join(*l, ",") }
func (l *list) Set(s string) error { *l = append(*l, s); return nil }

// cluster is the objects of a cluster, of which lookup sees one kind and namespace.
type cluster struct {
	dynamic.NamespaceableResourceInterface
	objects         []map[string]interface{}
	kind, namespace string
}

func (c cluster) GetClientFor(_, kind string) (dynamic.NamespaceableResourceInterface, bool, error) {
	c.kind = kind
	return c, true, nil
}

func (c cluster) Namespace(namespace string) dynamic.ResourceInterface {
	c.namespace = namespace
	return c
}

func (c cluster) Get(_ context.Context, name string, _ v1.GetOptions, _ ...string) (*unstructured.Unstructured, error) {
	for _, object := range c.objects {
		found := &unstructured.Unstructured{Object: object}
		if found.GetKind() == c.kind && found.GetNamespace() == c.namespace && found.GetName() == name {
			return found, nil
		}
	}
	return nil, errors.NewNotFound(schema.GroupResource{Resource: c.kind}, name)
}

func render() error {
	var files, sets, texts list
	flag.Var(&files, "f", "a values file")
	flag.Var(&sets, "set", "key=value")
	flag.Var(&texts, "set-string", "key=value, whose value is a string")
	kube := flag.String("kube", "v1.36.0", "the cluster's version")
	namespace := flag.String("n", "kube-system", "the release's namespace")
	there := flag.String("cluster", "", "a file with the objects of the cluster")
	notes := flag.Bool("notes", false, "print NOTES.txt, not the objects")
	flag.Parse()
	if flag.NArg() != 2 {
		return fmt.Errorf("two arguments are wanted: the release's name and the chart")
	}
	chart, err := loader.Load(flag.Arg(1))
	if err != nil {
		return err
	}
	// Later values win, and -set wins over every file.
	merged := map[string]interface{}{}
	for _, file := range files {
		values, err := chartutil.ReadValuesFile(file)
		if err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
		merged = chartutil.CoalesceTables(values, merged)
	}
	for _, set := range sets {
		if err := strvals.ParseInto(set, merged); err != nil {
			return err
		}
	}
	for _, set := range texts {
		if err := strvals.ParseIntoString(set, merged); err != nil {
			return err
		}
	}
	version, err := chartutil.ParseKubeVersion(*kube)
	if err != nil {
		return err
	}
	capabilities := chartutil.DefaultCapabilities.Copy()
	capabilities.KubeVersion = *version
	if !chartutil.IsCompatibleRange(chart.Metadata.KubeVersion, version.Version) {
		return fmt.Errorf("the chart wants Kubernetes %s, and this is %s", chart.Metadata.KubeVersion, version)
	}
	release := chartutil.ReleaseOptions{Name: flag.Arg(0), Namespace: *namespace, Revision: 1, IsInstall: true}
	all, err := chartutil.ToRenderValues(chart, merged, release, capabilities)
	if err != nil {
		return err
	}
	found := cluster{}
	if *there != "" {
		text, err := os.ReadFile(*there)
		if err != nil {
			return err
		}
		if err := json.Unmarshal(text, &found.objects); err != nil {
			return fmt.Errorf("%s: %w", *there, err)
		}
	}
	out, err := engine.RenderWithClientProvider(chart, all, found)
	if err != nil {
		return err
	}
	names := make([]string, 0, len(out))
	for name := range out {
		names = append(names, name)
	}
	sort.Strings(names)
	for _, name := range names {
		if strings.HasSuffix(name, "NOTES.txt") != *notes || strings.TrimSpace(out[name]) == "" {
			continue
		}
		if !*notes {
			fmt.Printf("---\n# %s\n", name)
		}
		fmt.Println(strings.TrimSpace(out[name]))
	}
	return nil
}

func main() {
	if err := render(); err != nil {
		fmt.Fprintln(os.Stderr, "helm:", err)
		os.Exit(1)
	}
}

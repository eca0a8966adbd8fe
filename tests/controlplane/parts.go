package main

import (
	"context"
	"flag"
	"fmt"
	"net/url"
	"strings"
	"time"

	"go.etcd.io/etcd/server/v3/embed"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/controller-manager/pkg/informerfactory"
	"k8s.io/klog/v2"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/kubernetes/pkg/controller/certificates/rootcacertpublisher"
	"k8s.io/kubernetes/pkg/controller/deployment"
	"k8s.io/kubernetes/pkg/controller/endpoint"
	"k8s.io/kubernetes/pkg/controller/endpointslice"
	"k8s.io/kubernetes/pkg/controller/endpointslicemirroring"
	"k8s.io/kubernetes/pkg/controller/garbagecollector"
	"k8s.io/kubernetes/pkg/controller/namespace"
	"k8s.io/kubernetes/pkg/controller/replicaset"
	"k8s.io/kubernetes/pkg/controller/serviceaccount"
	"k8s.io/kubernetes/pkg/controller/statefulset"
)

// etcd runs the embedded etcd with its client port on loopback.
func etcd(ctx context.Context, args []string) error {
	fs := flag.NewFlagSet("etcd", flag.ExitOnError)
	dir := fs.String("data", "etcd", "data directory")
	port := fs.Int("port", 2379, "client port")
	fsync := fs.Bool("fsync", false, "write data to disk before answering (slower)")
	fs.Parse(args)

	local := func(port int) []url.URL { return []url.URL{{Scheme: "http", Host: fmt.Sprintf("127.0.0.1:%d", port)}} }
	cfg := embed.NewConfig()
	cfg.Dir = *dir
	cfg.ListenClientUrls, cfg.AdvertiseClientUrls = local(*port), local(*port)
	cfg.ListenPeerUrls, cfg.AdvertisePeerUrls = local(0), local(0)
	cfg.InitialCluster = cfg.InitialClusterFromName(cfg.Name)
	cfg.UnsafeNoFsync = !*fsync
	cfg.QuotaBackendBytes = 8 << 30
	cfg.WarningUnaryRequestDuration, cfg.WarningApplyDuration = time.Second, time.Second
	cfg.LogLevel = "warn"
	cfg.LogOutputs = []string{"stderr"}
	server, err := embed.StartEtcd(cfg)
	if err != nil {
		return err
	}
	select {
	case err = <-server.Err():
	case <-ctx.Done():
	}
	server.Close()
	return err
}

const allControllers = "endpointslice,endpointslicemirroring,endpoints,namespace,serviceaccount,rootca,gc,deployment,replicaset,statefulset,kubelet"

// controllers runs the named controllers of kube-controller-manager, with that program's default settings.
func controllers(ctx context.Context, args []string) error {
	fs := flag.NewFlagSet("controllers", flag.ExitOnError)
	kubeconfig := fs.String("kubeconfig", "kubeconfig", "kubeconfig of an administrator")
	list := fs.String("controllers", allControllers, "the controllers to run")
	nodes := fs.Int("nodes", 3, "nodes that the fake kubelet makes")
	leave := fs.String("leave", "", "namespaces whose pods the fake kubelet leaves alone")
	fs.Parse(args)

	cfg, err := clientcmd.BuildConfigFromFlags("", *kubeconfig)
	if err != nil {
		return err
	}
	cfg.QPS, cfg.Burst = 1000, 2000
	cfg.UserAgent = "kube-controller-manager/ctl"
	cfg.ContentType = "application/vnd.kubernetes.protobuf"
	client, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		return err
	}
	meta, err := metadata.NewForConfig(metadata.ConfigFor(cfg))
	if err != nil {
		return err
	}
	const resync = 12 * time.Hour
	f := informers.NewSharedInformerFactory(client, resync)
	mf := metadatainformer.NewSharedInformerFactory(meta, resync)
	started := make(chan struct{})
	core, apps := f.Core().V1(), f.Apps().V1()

	runs := []func(){}
	for name := range strings.SplitSeq(*list, ",") {
		var run func()
		switch name {
		case "":
			continue
		case "endpointslice":
			c := endpointslice.NewController(ctx, core.Pods(), core.Services(), core.Nodes(), f.Discovery().V1().EndpointSlices(), 100, client, 0)
			run = func() { c.Run(ctx, 5) }
		case "endpointslicemirroring":
			c := endpointslicemirroring.NewController(ctx, core.Endpoints(), f.Discovery().V1().EndpointSlices(), core.Services(), 1000, client, 0)
			run = func() { c.Run(ctx, 5) }
		case "endpoints":
			c := endpoint.NewEndpointController(ctx, core.Pods(), core.Services(), core.Endpoints(), client, 0)
			run = func() { c.Run(ctx, 5) }
		case "namespace":
			c := namespace.NewNamespaceController(ctx, client, meta, client.Discovery().ServerPreferredNamespacedResources,
				core.Namespaces(), 5*time.Minute, corev1.FinalizerKubernetes)
			run = func() { c.Run(ctx, 10) }
		case "serviceaccount":
			c, err := serviceaccount.NewServiceAccountsController(klog.FromContext(ctx), core.ServiceAccounts(), core.Namespaces(), client,
				serviceaccount.DefaultServiceAccountsControllerOptions())
			if err != nil {
				return err
			}
			run = func() { c.Run(ctx, 1) }
		case "rootca":
			// ConfigMap kube-root-ca.crt in each namespace, from which a pod's token volume gets its ca.crt.
			if err := rest.LoadTLSFiles(cfg); err != nil {
				return err
			}
			c, err := rootcacertpublisher.NewPublisher(core.ConfigMaps(), core.Namespaces(), client, cfg.CAData)
			if err != nil {
				return err
			}
			run = func() { c.Run(ctx, 1) }
		case "gc":
			mapper := restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(client.Discovery()))
			gb := garbagecollector.NewDependencyGraphBuilder(ctx, meta, mapper, garbagecollector.DefaultIgnoredResources(),
				informerfactory.NewInformerFactory(f, mf), started)
			c, err := garbagecollector.NewComposedGarbageCollector(ctx, client, meta, mapper, gb)
			if err != nil {
				return err
			}
			run = func() {
				go c.Sync(ctx, client.Discovery(), 30*time.Second)
				c.Run(ctx, 20, 30*time.Second)
			}
		case "deployment":
			c, err := deployment.NewDeploymentController(ctx, apps.Deployments(), apps.ReplicaSets(), core.Pods(), client)
			if err != nil {
				return err
			}
			run = func() { c.Run(ctx, 5) }
		case "replicaset":
			c := replicaset.NewReplicaSetController(ctx, apps.ReplicaSets(), core.Pods(), client, replicaset.BurstReplicas)
			run = func() { c.Run(ctx, 5) }
		case "statefulset":
			c := statefulset.NewStatefulSetController(ctx, core.Pods(), apps.StatefulSets(), core.PersistentVolumeClaims(),
				apps.ControllerRevisions(), client)
			run = func() { c.Run(ctx, 5) }
		case "kubelet":
			kc := rest.CopyConfig(cfg)
			kc.UserAgent = "kubelet/ctl"
			if run, err = standIn(ctx, kubernetes.NewForConfigOrDie(kc), core.Pods(), *nodes, strings.Split(*leave, ",")); err != nil {
				return err
			}
		default:
			return fmt.Errorf("no controller is named %q; there are %s", name, allControllers)
		}
		runs = append(runs, run)
	}
	f.Start(ctx.Done())
	mf.Start(ctx.Done())
	close(started)
	for _, run := range runs {
		go run()
	}
	<-ctx.Done()
	return nil
}

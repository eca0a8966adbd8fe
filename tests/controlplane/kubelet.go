package main

import (
	"context"
	"fmt"
	"hash/fnv"
	"net/netip"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	coreinformers "k8s.io/client-go/informers/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
)

// termination is how long a deleted pod stays in its endpoints as "terminating", if its own grace period is not shorter.
const termination = 2 * time.Second

// standIn stands in for the scheduler and the kubelets: it binds each pod to a node, gives it an address, reports it
// ready, and removes it some time after its deletion. No container runs. It ignores pods that have an address already,
// and all pods of the namespaces in leave, where the caller plays the kubelet.
func standIn(ctx context.Context, client kubernetes.Interface, pods coreinformers.PodInformer, nodes int, leave []string) (func(), error) {
	work := make(chan *corev1.Pod, 1<<16)
	add := func(o any) {
		if p := o.(*corev1.Pod); !slices.Contains(leave, p.Namespace) {
			work <- p
		}
	}
	_, err := pods.Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    add,
		UpdateFunc: func(_, o any) { add(o) },
	})
	node := func(p *corev1.Pod) string { return fmt.Sprintf("node-%d", hash(p.UID)%uint32(nodes)) }
	handle := func(p *corev1.Pod) error {
		switch {
		case p.Spec.NodeName == "" && p.DeletionTimestamp == nil:
			return client.CoreV1().Pods(p.Namespace).Bind(ctx, &corev1.Binding{
				ObjectMeta: metav1.ObjectMeta{Namespace: p.Namespace, Name: p.Name, UID: p.UID},
				Target:     corev1.ObjectReference{Kind: "Node", Name: node(p)},
			}, metav1.CreateOptions{})
		case p.DeletionTimestamp != nil:
			wait := termination
			if g := p.DeletionGracePeriodSeconds; g != nil {
				wait = min(wait, time.Duration(*g)*time.Second)
			}
			time.AfterFunc(wait, func() {
				now := int64(0)
				err := client.CoreV1().Pods(p.Namespace).Delete(ctx, p.Name,
					metav1.DeleteOptions{GracePeriodSeconds: &now, Preconditions: &metav1.Preconditions{UID: &p.UID}})
				if err != nil && !gone(err) {
					klog.Errorf("delete pod %s/%s: %v", p.Namespace, p.Name, err)
				}
			})
		case p.Status.PodIP == "" && p.Status.Phase == corev1.PodPending:
			p = p.DeepCopy()
			markRunning(p)
			_, err := client.CoreV1().Pods(p.Namespace).UpdateStatus(ctx, p, metav1.UpdateOptions{})
			return err
		}
		return nil
	}
	return func() {
		for i := range nodes {
			if err := addNode(ctx, client, i); err != nil {
				klog.Errorf("add node: %v", err)
			}
		}
		for range 16 {
			go func() {
				for p := range work {
					if err := handle(p); err != nil && !gone(err) {
						klog.Errorf("pod %s/%s: %v", p.Namespace, p.Name, err)
					}
				}
			}()
		}
	}, err
}

// gone reports whether the error only says that the pod is newer than the event about it.
func gone(err error) bool { return apierrors.IsNotFound(err) || apierrors.IsConflict(err) }

func hash(uid types.UID) uint32 {
	h := fnv.New32a()
	h.Write([]byte(uid))
	return h.Sum32()
}

// podIPs derives an address in 100.64.0.0/10 and one in fd00:64::/96 from the pod's UID.
func podIPs(uid types.UID) []corev1.PodIP {
	h := hash(uid)
	v4 := netip.AddrFrom4([4]byte{100, 64 | byte(h>>16)&63, byte(h >> 8), byte(h)})
	v6 := netip.AddrFrom16([16]byte{0xfd, 0, 0, 0x64, 12: byte(h >> 24), byte(h >> 16), byte(h >> 8), byte(h)})
	return []corev1.PodIP{{IP: v4.String()}, {IP: v6.String()}}
}

func markRunning(p *corev1.Pod) {
	now := metav1.Now()
	s := &p.Status
	s.Phase, s.StartTime = corev1.PodRunning, &now
	s.HostIP, s.HostIPs = "192.0.2.10", []corev1.HostIP{{IP: "192.0.2.10"}}
	s.PodIPs = podIPs(p.UID)
	if p.Spec.HostNetwork {
		s.PodIPs = []corev1.PodIP{{IP: s.HostIP}}
	}
	s.PodIP = s.PodIPs[0].IP
	s.Conditions = nil
	for _, t := range []corev1.PodConditionType{corev1.PodScheduled, corev1.PodInitialized, corev1.ContainersReady, corev1.PodReady} {
		s.Conditions = append(s.Conditions, corev1.PodCondition{Type: t, Status: corev1.ConditionTrue, LastTransitionTime: now})
	}
	s.ContainerStatuses = nil
	for _, c := range p.Spec.Containers {
		s.ContainerStatuses = append(s.ContainerStatuses, corev1.ContainerStatus{Name: c.Name, Image: c.Image, ImageID: c.Image,
			Ready: true, Started: new(true), State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: now}}})
	}
}

func addNode(ctx context.Context, client kubernetes.Interface, i int) error {
	name := fmt.Sprintf("node-%d", i)
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{
		corev1.LabelHostname: name, corev1.LabelTopologyRegion: "region-1", corev1.LabelTopologyZone: zone(i)}}}
	n, err := client.CoreV1().Nodes().Create(ctx, n, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		return nil
	} else if err != nil {
		return err
	}
	n.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "192.0.2.10"}, {Type: corev1.NodeHostName, Address: name}}
	n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue, Reason: "KubeletReady",
		LastHeartbeatTime: metav1.Now(), LastTransitionTime: metav1.Now()}}
	_, err = client.CoreV1().Nodes().UpdateStatus(ctx, n, metav1.UpdateOptions{})
	return err
}

func zone(i int) string { return "region-1" + string("abc"[i%3]) }

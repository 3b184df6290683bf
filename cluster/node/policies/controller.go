// Package policies enforces NetworkPolicies on a node that routes its pods' packets, with nftables.
package policies

import (
	"context"
	"fmt"
	"log"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	core "k8s.io/api/core/v1"
	networking "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	corelisters "k8s.io/client-go/listers/core/v1"
	networklisters "k8s.io/client-go/listers/networking/v1"
	"k8s.io/client-go/tools/cache"
	"sigs.k8s.io/knftables"

	"orbiter.dev/localcluster/announce"
)

const (
	// Changes come in bursts, and each would replace the whole table.
	settle = 20 * time.Millisecond
	// What the kernel refused is tried again this often, whatever happens in between.
	retryEvery = 5 * time.Second
	lookEvery  = 10 * time.Millisecond
)

type controller struct {
	nft        knftables.Interface
	pods       corelisters.PodLister
	namespaces corelisters.NamespaceLister
	policies   networklisters.NetworkPolicyLister

	mutex     sync.Mutex
	announced map[types.UID]string // addresses that the API may not know yet
	applied   string
}

// Run enforces the policies until ctx ends. Once they hold it answers at the address listen.
func Run(ctx context.Context, client kubernetes.Interface, listen string) error {
	nft, err := knftables.New(knftables.InetFamily, Table)
	if err != nil {
		return err
	}
	factory := informers.NewSharedInformerFactory(client, 0)
	pods, namespaces := factory.Core().V1().Pods(), factory.Core().V1().Namespaces()
	policies := factory.Networking().V1().NetworkPolicies()
	c := &controller{
		nft: nft, pods: pods.Lister(), namespaces: namespaces.Lister(), policies: policies.Lister(),
		announced: map[types.UID]string{},
	}
	changed := make(chan struct{}, 1)
	for _, informer := range []cache.SharedIndexInformer{
		pods.Informer(), namespaces.Informer(), policies.Informer(),
	} {
		if err := tell(informer, changed); err != nil {
			return err
		}
	}
	factory.Start(ctx.Done())
	for kind, ready := range factory.WaitForCacheSync(ctx.Done()) {
		if !ready {
			return fmt.Errorf("ended before all %v were read", kind)
		}
	}
	if err := c.apply(ctx); err != nil {
		return err
	}
	ended := make(chan error, 2)
	go func() { ended <- announce.Serve(ctx, c.announce) }()
	go func() { ended <- http.ListenAndServe(listen, http.HandlerFunc(answer)) }()
	for {
		select {
		case <-ctx.Done():
			return nil
		case err := <-ended:
			return err
		case <-changed:
			time.Sleep(settle)
		case <-time.After(retryEvery):
		}
		if err := c.apply(ctx); err != nil {
			log.Print(err)
		}
	}
}

func answer(response http.ResponseWriter, _ *http.Request) {
	_, _ = response.Write([]byte("ok\n"))
}

func tell(informer cache.SharedIndexInformer, changed chan<- struct{}) error {
	signal := func() {
		select {
		case changed <- struct{}{}:
		default: // told already
		}
	}
	_, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(any) { signal() },
		UpdateFunc: func(any, any) { signal() },
		DeleteFunc: func(any) { signal() },
	})
	return err
}

// announce makes the policies hold for a pod that has an address and does not run yet.
func (c *controller) announce(ctx context.Context, pod announce.Pod) error {
	for { // the API's watch may be behind the kubelet's
		known, err := c.pods.Pods(pod.Namespace).Get(pod.Name)
		if err == nil && string(known.UID) == pod.UID {
			break
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("the API does not know uid %s", pod.UID)
		case <-time.After(lookEvery):
		}
	}
	c.mutex.Lock()
	for uid, address := range c.announced {
		if address == pod.IP { // of a pod that has given it back
			delete(c.announced, uid)
		}
	}
	c.announced[types.UID(pod.UID)] = pod.IP
	c.mutex.Unlock()
	return c.apply(ctx)
}

// apply makes the firewall what the policies say now.
func (c *controller) apply(ctx context.Context) error {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	now, err := c.now()
	if err != nil {
		return err
	}
	tx := c.nft.NewTransaction()
	now.Write(tx)
	wanted := tx.String()
	if wanted == c.applied {
		return nil
	}
	if err := c.nft.Run(ctx, tx); err != nil {
		return err
	}
	c.applied = wanted
	log.Printf("%d policies hold for %d pods", len(now.Policies), len(now.Pods))
	return nil
}

func (c *controller) now() (Cluster, error) {
	found := Cluster{Namespaces: map[string]labels.Set{}}
	namespaces, err := c.namespaces.List(labels.Everything())
	if err != nil {
		return found, err
	}
	for _, namespace := range namespaces {
		found.Namespaces[namespace.Name] = namespace.Labels
	}
	if found.Policies, err = c.policies.List(labels.Everything()); err != nil {
		return found, err
	}
	slices.SortFunc(found.Policies, func(a, b *networking.NetworkPolicy) int {
		return strings.Compare(string(a.UID), string(b.UID))
	})
	pods, err := c.pods.List(labels.Everything())
	if err != nil {
		return found, err
	}
	found.Pods = c.withAddresses(pods)
	return found, nil
}

// withAddresses lists the pods that have an address of their own. Of two with the same one, the
// announced has it, else the younger.
func (c *controller) withAddresses(pods []*core.Pod) []Pod {
	slices.SortFunc(pods, func(a, b *core.Pod) int {
		return a.CreationTimestamp.Compare(b.CreationTimestamp.Time)
	})
	owners := map[string]*core.Pod{}
	alive := map[types.UID]*core.Pod{}
	for _, pod := range pods {
		if isOver(pod) || pod.Spec.HostNetwork {
			continue
		}
		alive[pod.UID] = pod
		if _, said := c.announced[pod.UID]; !said && pod.Status.PodIP != "" {
			owners[pod.Status.PodIP] = pod
		}
	}
	for uid, address := range c.announced {
		if pod, lives := alive[uid]; lives {
			owners[address] = pod
		} else {
			delete(c.announced, uid)
		}
	}
	listed := make([]Pod, 0, len(owners))
	for address, pod := range owners {
		listed = append(listed, Pod{pod, address})
	}
	slices.SortFunc(listed, func(a, b Pod) int { return strings.Compare(a.IP, b.IP) })
	return listed
}

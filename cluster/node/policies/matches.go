package policies

import (
	"cmp"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	core "k8s.io/api/core/v1"
	networking "k8s.io/api/networking/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// Pod is a pod with the address it is known by.
type Pod struct {
	*core.Pod
	IP string
}

// Cluster is everything that the rules depend on.
type Cluster struct {
	Pods       []Pod
	Namespaces map[string]labels.Set
	Policies   []*networking.NetworkPolicy
}

// lines are the rules that accept what one rule of a policy allows: any peer with any port.
func lines(peers, ports []string) []string {
	var all []string
	for _, peer := range peers {
		for _, port := range ports {
			all = append(all, strings.Join(strings.Fields(peer+" "+port+" accept"), " "))
		}
	}
	return all
}

// peers are the matches for a policy's list of peers, in the packet's field `ip saddr` or `ip
// daddr`. One empty match is everybody; none at all is nobody.
func (c Cluster) peers(namespace string, wanted []networking.NetworkPolicyPeer, field string) []string {
	if len(wanted) == 0 {
		return []string{""}
	}
	var matches, addresses []string
	for _, peer := range wanted {
		if peer.IPBlock != nil {
			matches = append(matches, block(*peer.IPBlock, field)...)
			continue
		}
		for _, pod := range c.Pods {
			if c.isPeer(pod, namespace, peer) {
				addresses = append(addresses, pod.IP)
			}
		}
	}
	if len(addresses) > 0 {
		matches = append(matches, among(field, addresses))
	}
	return matches
}

func (c Cluster) isPeer(pod Pod, namespace string, peer networking.NetworkPolicyPeer) bool {
	if peer.NamespaceSelector == nil {
		return pod.Namespace == namespace && selects(peer.PodSelector, pod.Labels)
	}
	return selects(peer.NamespaceSelector, c.Namespaces[pod.Namespace]) &&
		(peer.PodSelector == nil || selects(peer.PodSelector, pod.Labels))
}

// block is the match for a network less its exceptions; none for IPv6, which the node does not speak.
func block(wanted networking.IPBlock, field string) []string {
	network, err := netip.ParsePrefix(wanted.CIDR)
	if err != nil || !network.Addr().Is4() {
		return nil
	}
	match := fmt.Sprintf("%s %s", field, network.Masked())
	for _, text := range wanted.Except {
		if excepted, err := netip.ParsePrefix(text); err == nil && excepted.Addr().Is4() {
			match += fmt.Sprintf(" %s != %s", field, excepted.Masked())
		}
	}
	return []string{match}
}

// ports are the matches for a policy's list of ports. A name is a port of the connection's
// destination, which may be another number in each pod.
func ports(wanted []networking.NetworkPolicyPort, destinations []Pod) []string {
	if len(wanted) == 0 {
		return []string{""}
	}
	var matches []string
	for _, port := range wanted {
		protocol := core.ProtocolTCP
		if port.Protocol != nil {
			protocol = *port.Protocol
		}
		name := strings.ToLower(string(protocol))
		switch {
		case port.Port == nil:
			matches = append(matches, "meta l4proto "+name)
		case port.Port.Type == intstr.String:
			matches = append(matches, named(port.Port.StrVal, protocol, destinations)...)
		case port.EndPort != nil:
			matches = append(matches, fmt.Sprintf("%s dport %d-%d", name, port.Port.IntVal, *port.EndPort))
		default:
			matches = append(matches, fmt.Sprintf("%s dport %d", name, port.Port.IntVal))
		}
	}
	return matches
}

func named(wanted string, protocol core.Protocol, destinations []Pod) []string {
	having := map[int32][]string{}
	for _, pod := range destinations {
		for _, container := range slices.Concat(pod.Spec.Containers, pod.Spec.InitContainers) {
			for _, port := range container.Ports {
				if port.Name == wanted && cmp.Or(port.Protocol, core.ProtocolTCP) == protocol {
					having[port.ContainerPort] = append(having[port.ContainerPort], pod.IP)
				}
			}
		}
	}
	var matches []string
	for _, number := range slices.Sorted(maps.Keys(having)) {
		match := fmt.Sprintf("%s %s dport %d", among("ip daddr", having[number]),
			strings.ToLower(string(protocol)), number)
		matches = append(matches, match)
	}
	return matches
}

func among(field string, addresses []string) string {
	slices.Sort(addresses)
	return fmt.Sprintf("%s { %s }", field, strings.Join(slices.Compact(addresses), ", "))
}

func selects(selector *meta.LabelSelector, of labels.Set) bool {
	compiled, err := meta.LabelSelectorAsSelector(selector)
	return err == nil && compiled.Matches(of)
}

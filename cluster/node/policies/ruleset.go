package policies

import (
	"slices"

	core "k8s.io/api/core/v1"
	networking "k8s.io/api/networking/v1"
	"sigs.k8s.io/knftables"
)

// Table is the name of the firewall table, which nobody else writes to.
const Table = "network-policies"

const (
	// The machine that the node runs on counts as the node: what comes over the link to it is let
	// in. What the node itself sends (the kubelet's probes) is not looked at in the first place.
	fromMachine = `iifname "eth0" accept`
	fromNode    = `iifname { "lo", "eth0" } accept`
	answers     = "ct state established,related accept"
	// Policies know IPv4 addresses; the node's link-local ones would be a way around them.
	noIPv6 = "meta nfproto ipv6 drop"
	// The other side is told, so that nobody waits for a timeout.
	refuse = "reject with icmpx type admin-prohibited"
)

type direction struct {
	kind  networking.PolicyType
	name  string
	own   string // the field that has the address of the pod that policies are for
	other string // the field that has its peer's
}

var (
	egress  = direction{networking.PolicyTypeEgress, "egress", "ip saddr", "ip daddr"}
	ingress = direction{networking.PolicyTypeIngress, "ingress", "ip daddr", "ip saddr"}
)

// Write puts the whole table into a transaction, in place of the one that is there.
//
// A packet passes the chain of its sender's policies, then that of its receiver's; `accept` ends
// only the one it is in. Services are no matter: kube-proxy has put in a pod's address before.
func (c Cluster) Write(tx *knftables.Transaction) {
	tx.Add(&knftables.Table{}) // so that there is one to delete
	tx.Delete(&knftables.Table{})
	tx.Add(&knftables.Table{})
	c.writePods(tx, egress)
	c.writePods(tx, ingress)
	hook(tx, "sent-on", knftables.ForwardHook, "filter",
		answers, fromMachine, "ip saddr vmap @egress")
	hook(tx, "sent-to-the-node", knftables.InputHook, "filter",
		fromNode, noIPv6, answers, "ip saddr vmap @egress")
	hook(tx, "received", knftables.ForwardHook, "filter+1",
		answers, fromMachine, "ip daddr vmap @ingress")
}

func hook(tx *knftables.Transaction, name string, at knftables.BaseChainHook,
	priority knftables.BaseChainPriority, rules ...string) {
	tx.Add(&knftables.Chain{
		Name: name, Type: knftables.PtrTo(knftables.FilterType),
		Hook: &at, Priority: &priority,
	})
	add(tx, name, rules...)
}

// writePods makes a chain for each policy and one for each pod that has any, which ends with a no.
func (c Cluster) writePods(tx *knftables.Transaction, to direction) {
	tx.Add(&knftables.Map{Name: to.name, Type: "ipv4_addr : verdict"})
	rules := map[string][]string{}
	for _, policy := range c.Policies {
		if !slices.Contains(policy.Spec.PolicyTypes, to.kind) {
			continue
		}
		chain := to.name + "-policy-" + string(policy.UID)
		subjects := c.subjects(policy)
		about := policy.Namespace + "/" + policy.Name
		about = about[:min(len(about), knftables.CommentLengthMax)]
		tx.Add(&knftables.Chain{Name: chain, Comment: &about})
		add(tx, chain, c.allowed(policy, to, subjects)...)
		for _, pod := range subjects {
			rules[pod.IP] = append(rules[pod.IP], "jump "+chain)
		}
	}
	for _, pod := range c.Pods {
		if len(rules[pod.IP]) == 0 {
			continue
		}
		chain := to.name + "-pod-" + pod.IP
		tx.Add(&knftables.Chain{Name: chain})
		add(tx, chain, to.other+" "+pod.IP+" accept") // nothing keeps a pod from itself
		add(tx, chain, append(rules[pod.IP], refuse)...)
		tx.Add(&knftables.Element{
			Map: to.name, Key: []string{pod.IP}, Value: []string{"goto " + chain},
		})
	}
}

func (c Cluster) subjects(policy *networking.NetworkPolicy) []Pod {
	var found []Pod
	for _, pod := range c.Pods {
		if pod.Namespace == policy.Namespace && selects(&policy.Spec.PodSelector, pod.Labels) {
			found = append(found, pod)
		}
	}
	return found
}

func (c Cluster) allowed(policy *networking.NetworkPolicy, to direction, subjects []Pod) []string {
	var all []string
	if to == egress {
		for _, rule := range policy.Spec.Egress {
			peers := c.peers(policy.Namespace, rule.To, to.other)
			all = append(all, lines(peers, ports(rule.Ports, c.Pods))...)
		}
		return all
	}
	for _, rule := range policy.Spec.Ingress {
		peers := c.peers(policy.Namespace, rule.From, to.other)
		all = append(all, lines(peers, ports(rule.Ports, subjects))...)
	}
	return all
}

func add(tx *knftables.Transaction, chain string, rules ...string) {
	for _, rule := range rules {
		tx.Add(&knftables.Rule{Chain: chain, Rule: rule})
	}
}

// isOver says whether a pod has given its address back.
func isOver(pod *core.Pod) bool {
	return pod.Status.Phase == core.PodSucceeded || pod.Status.Phase == core.PodFailed
}

package policies

import (
	"context"
	"strings"
	"testing"

	core "k8s.io/api/core/v1"
	networking "k8s.io/api/networking/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/knftables"
)

func pod(namespace, app, ip string, ports ...core.ContainerPort) Pod {
	return Pod{&core.Pod{
		ObjectMeta: meta.ObjectMeta{Namespace: namespace, Labels: map[string]string{"app": app}},
		Spec:       core.PodSpec{Containers: []core.Container{{Ports: ports}}},
	}, ip}
}

func selector(key, value string) *meta.LabelSelector {
	return &meta.LabelSelector{MatchLabels: map[string]string{key: value}}
}

func port(value intstr.IntOrString, protocol core.Protocol) networking.NetworkPolicyPort {
	return networking.NetworkPolicyPort{Port: &value, Protocol: &protocol}
}

func policy(kind networking.PolicyType, change func(*networking.NetworkPolicySpec)) *networking.NetworkPolicy {
	made := &networking.NetworkPolicy{
		ObjectMeta: meta.ObjectMeta{Namespace: "a", Name: "it", UID: types.UID("1")},
		Spec: networking.NetworkPolicySpec{
			PodSelector: *selector("app", "web"), PolicyTypes: []networking.PolicyType{kind},
		},
	}
	change(&made.Spec)
	return made
}

var pods = []Pod{
	pod("a", "web", "10.244.0.2", core.ContainerPort{Name: "http", ContainerPort: 8080}),
	pod("a", "db", "10.244.0.3", core.ContainerPort{Name: "http", ContainerPort: 9090}),
	pod("b", "web", "10.244.0.4"),
}

// rules are those of one chain, as the kernel would get them.
func rules(t *testing.T, policy *networking.NetworkPolicy, chain string) []string {
	t.Helper()
	fake := knftables.NewFake(knftables.InetFamily, Table)
	tx := fake.NewTransaction()
	Cluster{
		Pods:       pods,
		Namespaces: map[string]labels.Set{"a": {"team": "a"}, "b": {"team": "b"}},
		Policies:   []*networking.NetworkPolicy{policy},
	}.Write(tx)
	if err := fake.Run(context.Background(), tx); err != nil {
		t.Fatal(err)
	}
	found, err := fake.ListRules(context.Background(), chain)
	if err != nil {
		t.Fatal(err)
	}
	var texts []string
	for _, rule := range found {
		texts = append(texts, rule.Rule)
	}
	return texts
}

func expect(t *testing.T, found []string, wanted ...string) {
	t.Helper()
	if strings.Join(found, "\n") != strings.Join(wanted, "\n") {
		t.Errorf("got\n%s\nwanted\n%s", strings.Join(found, "\n"), strings.Join(wanted, "\n"))
	}
}

func TestASelectedPodMayOnlyDoWhatItsPoliciesSay(t *testing.T) {
	found := rules(t, policy(networking.PolicyTypeEgress, func(*networking.NetworkPolicySpec) {}),
		"egress-pod-10.244.0.2")
	expect(t, found, "ip daddr 10.244.0.2 accept", "jump egress-policy-1", refuse)
}

func TestAPolicyOfOneDirectionLeavesTheOtherAlone(t *testing.T) {
	made := policy(networking.PolicyTypeEgress, func(*networking.NetworkPolicySpec) {})
	fake := knftables.NewFake(knftables.InetFamily, Table)
	tx := fake.NewTransaction()
	Cluster{Pods: pods, Policies: []*networking.NetworkPolicy{made}}.Write(tx)
	if strings.Contains(tx.String(), "ingress-pod") || strings.Contains(tx.String(), "10.244.0.4") {
		t.Error(tx.String())
	}
}

func TestEgressRules(t *testing.T) {
	https := []networking.NetworkPolicyPort{port(intstr.FromInt32(443), core.ProtocolTCP)}
	for name, one := range map[string]struct {
		rule   networking.NetworkPolicyEgressRule
		wanted []string
	}{
		"anything": {networking.NetworkPolicyEgressRule{}, []string{"accept"}},
		"a network but parts of it": {
			networking.NetworkPolicyEgressRule{Ports: https, To: []networking.NetworkPolicyPeer{{
				IPBlock: &networking.IPBlock{
					CIDR: "0.0.0.0/0", Except: []string{"10.0.0.0/8", "10.96.0.0/16"},
				},
			}}},
			[]string{"ip daddr 0.0.0.0/0 ip daddr != 10.0.0.0/8 ip daddr != 10.96.0.0/16 " +
				"tcp dport 443 accept"},
		},
		"a network the node does not speak is nobody": {
			networking.NetworkPolicyEgressRule{To: []networking.NetworkPolicyPeer{{
				IPBlock: &networking.IPBlock{CIDR: "::/0"},
			}}}, nil,
		},
		"pods of the own namespace": {
			networking.NetworkPolicyEgressRule{To: []networking.NetworkPolicyPeer{{
				PodSelector: selector("app", "web"),
			}}}, []string{"ip daddr { 10.244.0.2 } accept"},
		},
		"all pods of namespaces": {
			networking.NetworkPolicyEgressRule{To: []networking.NetworkPolicyPeer{{
				NamespaceSelector: &meta.LabelSelector{},
			}}}, []string{"ip daddr { 10.244.0.2, 10.244.0.3, 10.244.0.4 } accept"},
		},
		"some pods of a namespace": {
			networking.NetworkPolicyEgressRule{To: []networking.NetworkPolicyPeer{{
				NamespaceSelector: selector("team", "b"), PodSelector: selector("app", "web"),
			}}}, []string{"ip daddr { 10.244.0.4 } accept"},
		},
		"pods there are none of": {
			networking.NetworkPolicyEgressRule{To: []networking.NetworkPolicyPeer{{
				PodSelector: selector("app", "nothing"),
			}}}, nil,
		},
		"a named port is the destination's": {
			networking.NetworkPolicyEgressRule{
				Ports: []networking.NetworkPolicyPort{port(intstr.FromString("http"), core.ProtocolTCP)},
			},
			[]string{
				"ip daddr { 10.244.0.2 } tcp dport 8080 accept",
				"ip daddr { 10.244.0.3 } tcp dport 9090 accept",
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			made := policy(networking.PolicyTypeEgress, func(spec *networking.NetworkPolicySpec) {
				spec.Egress = []networking.NetworkPolicyEgressRule{one.rule}
			})
			expect(t, rules(t, made, "egress-policy-1"), one.wanted...)
		})
	}
}

func TestIngressRulesHaveThePeersAsSenders(t *testing.T) {
	last := int32(90)
	block := port(intstr.FromInt32(80), core.ProtocolUDP)
	block.EndPort = &last
	any := core.ProtocolSCTP
	made := policy(networking.PolicyTypeIngress, func(spec *networking.NetworkPolicySpec) {
		spec.Ingress = []networking.NetworkPolicyIngressRule{{
			From: []networking.NetworkPolicyPeer{{PodSelector: selector("app", "db")}},
			Ports: []networking.NetworkPolicyPort{
				block, {Protocol: &any}, port(intstr.FromString("http"), core.ProtocolTCP),
			},
		}}
	})
	expect(t, rules(t, made, "ingress-policy-1"),
		"ip saddr { 10.244.0.3 } udp dport 80-90 accept",
		"ip saddr { 10.244.0.3 } meta l4proto sctp accept",
		"ip saddr { 10.244.0.3 } ip daddr { 10.244.0.2 } tcp dport 8080 accept")
}

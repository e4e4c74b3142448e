package services

import (
	"maps"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/penstock-project/penstock/discovery/store"
	"github.com/penstock-project/penstock/manifests/v1alpha1"
	"github.com/penstock-project/penstock/translator/addresses"
	"github.com/penstock-project/penstock/translator/model"
)

// Select lists the Pods and ModelServers of a namespace that a selector matches, sorted by address.
// Each port counts as a server (InferencePool, targetPorts). An empty selector selects no server.
func Select(r store.Reader, namespace string, selector map[string]string, ports []uint16) []model.Member {
	return choose(r, namespace, selector, targets{numbers: ports})
}

func choose(r store.Reader, namespace string, selector map[string]string, ports targets) []model.Member {
	out := list(r, namespace, selector, ports)
	slices.SortFunc(out, func(a, b model.Member) int { return a.Address.Compare(b.Address) })
	return slices.CompactFunc(out, func(a, b model.Member) bool { return a.Address == b.Address })
}

// Candidates returns the Pods with the first label of a selector. Select chooses among them.
func Candidates(r store.Reader, namespace string, selector map[string]string) store.Rows {
	first, ok := firstLabel(namespace, selector)
	if !ok {
		return store.Rows{}
	}
	return r.Rows(store.Pods.Kind(), store.ByLabel, first)
}

func firstLabel(namespace string, selector map[string]string) (key string, ok bool) {
	if len(selector) == 0 {
		return "", false
	}
	name := slices.Min(slices.Collect(maps.Keys(selector)))
	return store.LabelKey(namespace, name, selector[name]), true
}

func list(r store.Reader, namespace string, selector map[string]string, ports targets) []model.Member {
	first, ok := firstLabel(namespace, selector)
	if !ok {
		return nil
	}
	var out []model.Member
	policy := addresses.Of(r)
	never := func(ip netip.Addr) bool { return policy.Never(ip) != "" }
	for _, pod := range store.Pods.By(r, store.ByLabel, first) {
		if matches(selector, pod.Labels) {
			out = append(out, podMembers(pod, ports, never)...)
		}
	}
	for _, ms := range store.ModelServers.By(r, store.ByLabel, first) {
		for _, s := range ms.Spec.Servers {
			labels := ms.Labels
			if len(s.Labels) > 0 {
				labels = map[string]string{}
				maps.Copy(labels, ms.Labels)
				maps.Copy(labels, s.Labels)
			}
			if matches(selector, labels) {
				out = append(out, serverMembers(r, ms, s, labels, ports.numbers)...)
			}
		}
	}
	return out
}

func matches(selector, labels map[string]string) bool {
	for k, v := range selector {
		if got, ok := labels[k]; !ok || got != v {
			return false
		}
	}
	return true
}

// podMembers returns a pod's servers. A terminating pod takes no new requests but stays a member,
// so that its requests in flight are counted. A pod from a file with an address and without
// conditions is ready.
func podMembers(pod *corev1.Pod, ports targets, never func(netip.Addr) bool) []model.Member {
	ip, err := netip.ParseAddr(pod.Status.PodIP)
	if err != nil || never(ip) || pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed {
		return nil
	}
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodReady && c.Status != corev1.ConditionTrue && pod.DeletionTimestamp == nil &&
			!ports.unready {
			return nil
		}
	}
	var out []model.Member
	for _, port := range ports.of(pod) {
		out = append(out,
			model.Member{Address: netip.AddrPortFrom(ip.Unmap(), port), Pod: pod.Name, Labels: pod.Labels,
				Draining: pod.DeletionTimestamp != nil})
	}
	return out
}

func serverMembers(r store.Reader, ms *v1alpha1.ModelServers, s v1alpha1.ModelServer, labels map[string]string,
	ports []uint16) []model.Member {
	if len(s.Ports) > 0 {
		ports = nil
		for _, p := range s.Ports {
			ports = append(ports, uint16(p))
		}
	}
	var out []model.Member
	for _, ip := range Lookup(r, s.Address).Addresses {
		for _, port := range ports {
			out = append(out,
				model.Member{Address: netip.AddrPortFrom(ip, port), Pod: ms.Name + "/" + strings.ToLower(s.Address),
					Labels: labels, Draining: s.Draining})
		}
	}
	return out
}

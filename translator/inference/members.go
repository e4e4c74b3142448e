package inference

import (
	"maps"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/penstock-project/penstock/discovery/store"
	"github.com/penstock-project/penstock/manifests/v1alpha1"
	"github.com/penstock-project/penstock/translator/model"
)

// Members lists the model servers of a pool, sorted by address: pods and ModelServers that its selector matches, or what an
// import declares and our picker has learned. Each target port is a server of its own (InferencePool, targetPorts).
func Members(r store.Reader, p *model.Pool) []model.Member {
	var out []model.Member
	switch {
	case p.Selector != nil:
		out = selected(r, p.Ref.Namespace, p.Selector, p.Ports)
	case p.Relay != nil:
		name := store.LearnedName(p.Ref.Name, p.Relay.Member)
		if learned, ok := store.LearnedEndpoints.Get(r, p.Ref.Namespace+"/"+name); ok {
			for _, e := range learned.Endpoints {
				if addr, err := netip.ParseAddrPort(e); err == nil {
					out = append(out, model.Member{Address: addr, Pod: p.Relay.Member})
				}
			}
		}
	default:
		for _, addr := range p.Remote {
			out = append(out, model.Member{Address: addr})
		}
	}
	slices.SortFunc(out, func(a, b model.Member) int { return a.Address.Compare(b.Address) })
	return slices.CompactFunc(out, func(a, b model.Member) bool { return a.Address == b.Address })
}

// selected finds pods and ModelServers by label. An empty selector selects nothing.
func selected(r store.Reader, namespace string, selector map[string]string, ports []uint16) []model.Member {
	if len(selector) == 0 {
		return nil
	}
	labels := slices.Sorted(maps.Keys(selector))
	first := store.LabelKey(namespace, labels[0], selector[labels[0]])
	var out []model.Member
	for _, pod := range store.Pods.By(r, store.ByLabel, first) {
		if matches(selector, pod.Labels) {
			out = append(out, podMembers(pod, ports)...)
		}
	}
	for _, ms := range store.ModelServers.By(r, store.ByLabel, first) {
		for _, s := range ms.Spec.Servers {
			labels := maps.Clone(ms.Labels)
			if labels == nil {
				labels = map[string]string{}
			}
			maps.Copy(labels, s.Labels)
			if matches(selector, labels) {
				out = append(out, serverMembers(r, ms, s, labels, ports)...)
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

// podMembers: a pod serves while it is ready. One that is ending takes no new request but is still a member, so that
// what it has is not forgotten. A pod from a file that has an address and no conditions counts as ready.
func podMembers(pod *corev1.Pod, ports []uint16) []model.Member {
	ip, err := netip.ParseAddr(pod.Status.PodIP)
	if err != nil || pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed {
		return nil
	}
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodReady && c.Status != corev1.ConditionTrue && pod.DeletionTimestamp == nil {
			return nil
		}
	}
	var out []model.Member
	for _, port := range ports {
		out = append(out, model.Member{Address: netip.AddrPortFrom(ip.Unmap(), port), Pod: pod.Name, Labels: pod.Labels, Draining: pod.DeletionTimestamp != nil})
	}
	return out
}

func serverMembers(r store.Reader, ms *v1alpha1.ModelServers, s v1alpha1.ModelServer, labels map[string]string, ports []uint16) []model.Member {
	if len(s.Ports) > 0 {
		ports = nil
		for _, p := range s.Ports {
			ports = append(ports, uint16(p))
		}
	}
	var out []model.Member
	for _, ip := range Addresses(r, s.Address) {
		for _, port := range ports {
			out = append(out, model.Member{Address: netip.AddrPortFrom(ip, port), Pod: ms.Name + "/" + strings.ToLower(s.Address), Labels: labels, Draining: s.Draining})
		}
	}
	return out
}

package chart

import (
	"maps"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"sigs.k8s.io/yaml"
)

// relayValues have penstock hub relay between members that have a peer.
func relayValues(members map[string]any) map[string]any {
	all := map[string]any{"address": "hub.example.com:18443", "volume": map[string]any{"persistentVolumeClaim": map[string]any{"claimName": "penstock-hub"}}}
	maps.Copy(all, members)
	return map[string]any{"hub": map[string]any{"enabled": true, "members": all}}
}

// A hub that relays has its keys on a volume that one process at a time uses, and members reach its port and no other.
func TestChart_HubThatRelaysIsOneProcessWithAVolume(t *testing.T) {
	var hub appsv1.Deployment
	var service corev1.Service
	var policy networkingv1.NetworkPolicy
	for _, d := range render(t, relayValues(map[string]any{"port": 443, "serviceAnnotations": map[string]any{"a": "b"}, "from": []any{map[string]any{"ipBlock": map[string]any{"cidr": "192.0.2.0/24"}}}})) {
		kind := check(t, d)
		into := map[string]any{"Deployment": &hub, "Service": &service, "NetworkPolicy": &policy}[kind]
		if into == nil || !strings.HasSuffix(d.file, "hub.yaml") {
			continue
		}
		if err := yaml.UnmarshalStrict([]byte(d.text), into); err != nil {
			t.Fatal(err)
		}
	}
	pod := hub.Spec.Template.Spec
	c := pod.Containers[0]
	if *hub.Spec.Replicas != 1 || hub.Spec.Strategy.Type != appsv1.RecreateDeploymentStrategyType || hub.Spec.Strategy.RollingUpdate != nil {
		t.Errorf("%d replicas, strategy %+v: two processes may not use the keys", *hub.Spec.Replicas, hub.Spec.Strategy)
	}
	if policy := pod.SecurityContext.FSGroupChangePolicy; policy == nil || *policy != corev1.FSGroupChangeOnRootMismatch {
		t.Error("the kubelet opens the folder of the keys to a group")
	}
	if len(pod.Volumes) != 1 || pod.Volumes[0].PersistentVolumeClaim.ClaimName != "penstock-hub" || len(c.VolumeMounts) != 1 || c.VolumeMounts[0].ReadOnly {
		t.Errorf("volumes %+v, mounts %+v", pod.Volumes, c.VolumeMounts)
	}
	for _, want := range []string{"--members-listen=0.0.0.0:18443", "--members-address=hub.example.com:18443", "--state=" + c.VolumeMounts[0].MountPath + "/state"} {
		if !slices.Contains(c.Args, want) {
			t.Errorf("%s is missing in %v", want, c.Args)
		}
	}
	if service.Name != "penstock-hub-members" || service.Spec.Type != corev1.ServiceTypeLoadBalancer || service.Annotations["a"] != "b" || !maps.Equal(service.Spec.Selector, hub.Spec.Selector.MatchLabels) ||
		len(service.Spec.Ports) != 1 || service.Spec.Ports[0].Port != 443 || service.Spec.Ports[0].TargetPort.StrVal != "members" {
		t.Errorf("Service %+v", service)
	}
	if !slices.ContainsFunc(c.Ports, func(p corev1.ContainerPort) bool { return p.Name == "members" && p.ContainerPort == 18443 }) {
		t.Errorf("ports %+v", c.Ports)
	}
	if in := policy.Spec.Ingress; len(in) != 2 || in[0].Ports[0].Port.StrVal != "members" || in[0].From[0].IPBlock.CIDR != "192.0.2.0/24" {
		t.Errorf("ingress %+v", in)
	}
}

// What would cost the hub its keys, or its address, is an error with a fix.
func TestChart_HubThatRelaysNamesTheValuesThatItNeeds(t *testing.T) {
	own := relayValues(nil)
	own["clusterSet"] = map[string]any{"enabled": true, "address": "east.example.com:18443"}
	for what, c := range map[string]struct {
		values map[string]any
		want   string
	}{
		"no volume":             {relayValues(map[string]any{"volume": nil}), "hub.members.volume must outlast the pod"},
		"a volume of the pod":   {relayValues(map[string]any{"volume": map[string]any{"emptyDir": map[string]any{}}}), "hub.members.volume must outlast the pod"},
		"a claim of the pod":    {relayValues(map[string]any{"volume": map[string]any{"ephemeral": map[string]any{"a": "b"}}}), "hub.members.volume must outlast the pod"},
		"no address":            {relayValues(map[string]any{"address": ""}), `hub.members.address is "": write HOST:PORT`},
		"an address, no port":   {relayValues(map[string]any{"address": "hub.example.com"}), `hub.members.address is "hub.example.com": write HOST:PORT`},
		"a member in its place": {own, "clusterSet.enabled and hub.members.address exclude each other"},
	} {
		if out, err := runHelm(t, "template", "penstock", chartDir, "--values", written(t, c.values)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want an error with %q\n%.300s", what, err, c.want, out)
		}
	}
}

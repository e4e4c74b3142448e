package chart

import (
	"strings"
	"testing"
)

// A value of an invalid form would end the processes at their start, or have no effect. helm
// install reports the value instead.
func TestFormats_InvalidValueIsNamed(t *testing.T) {
	t.Parallel()
	for dir, values := range map[string]map[string]string{
		chartDir: {
			"xdsAddress=foo": "xdsAddress", "xdsAddress=foo:70000": "xdsAddress", "xdsAddress=:18000": "xdsAddress",
			"xdsAddress=2001:db8::1:18000": "xdsAddress", `xdsAddress=a:1\,b`: "xdsAddress",
			"clusterSet.address=foo:70000": "clusterSet.address", "clusterSet.address=foo:0": "clusterSet.address",
			"fetchHosts={a:99999}": "fetchHosts[0]", "fetchHosts={a,[::1]:0}": "fetchHosts[1]",
			"allowedCIDRs={300.0.0.0/8}": "allowedCIDRs[0]", "deniedCIDRs={10.0.0.0/33}": "deniedCIDRs[0]",
			"externalIPs={192.0.2.1/32,2001::db8::/32}": "externalIPs[1]", "allowedCIDRs={10.0.0/8}": "allowedCIDRs[0]",
			"allowedCIDRs={2001:db8/32}": "allowedCIDRs[0]", "allowedCIDRs={::/129}": "allowedCIDRs[0]",
			"watchNamespaces={default,Bad_NS}": "watchNamespaces/1", "watchNamespaces={a.b}": "watchNamespaces/0",
			"gatewayClass=Foo_Bar": "gatewayClass", "usage.databaseSecret=Bad_Name": "databaseSecret",
			"clientCA=Bad_Name": "clientCA", "hub.profiles.configMap=Bad_Name": "configMap",
			"priorityClassName=Bad_Name": "priorityClassName", "imagePullSecrets[0].name=Bad_Name": "imagePullSecrets",
			"imagePullSecrets[0].nam=pull": "imagePullSecrets", "envoyImage=envoy@sha256:1b2c": "envoyImage",
			"trustDomain=spiffe://cluster.local": "trustDomain", "kvEvents.port=9002,replicas=1": "kvEvents.port",
		},
		pickerDir: {
			"pool.name=Bad_Name": "pool/name", "tls.secret=Bad_Name": "tls/secret",
			"tls.clientCA=Bad_Name": "tls/clientCA",
			"peers.secret=Bad_Name": "peers/secret", "allowedCIDRs={300.0.0.0/8}": "allowedCIDRs[0]",
			"priorityClassName=Bad_Name": "priorityClassName", "imagePullSecrets[0].name=Bad_Name": "imagePullSecrets",
		},
		externalDir: {
			"networkPolicy.penstockNamespace=Bad_NS": "penstockNamespace", "router.image=a b": "router/image",
			"imagePullSecrets[0].name=Bad_Name": "imagePullSecrets",
		},
	} {
		for set, named := range values {
			out, err := runHelm(t, "template", dir, "--set", "pool.selector.app=vllm", "--set", set)
			if dir != pickerDir {
				out, err = runHelm(t, "template", dir, "--set", set)
			}
			if err == nil || !strings.Contains(err.Error(), named) {
				t.Errorf("--set %s: got %v\n%.200s\nwant an error about %s", set, err, out, named)
			}
		}
	}
}

func TestFormats_ValidValuesRender(t *testing.T) {
	t.Parallel()
	for _, set := range []string{
		"xdsAddress=$(PENSTOCK_SERVICE_HOST):18000",
		"xdsAddress=$(PENSTOCK_SERVICE_HOST):$(PENSTOCK_SERVICE_PORT_XDS)", "xdsAddress=[2001:db8::1]:18000",
		`xdsAddress=a.example.com:1\,192.0.2.1:65535`, "xdsAddress=penstock_1.example.com:18000",
		"clusterSet.address=[2001:db8::1]:443",
		"clusterSet.enabled=true,clusterSet.address=a:18000,clusterSet.port=18000", // a separate Service has this port
		"fetchHosts={sso.example.com,SSO.example.com:8443,192.0.2.1:65535,[2001:db8::1],[2001:db8::1]:443}",
		"allowedCIDRs={0.0.0.0/0,10.1.2.3/8,255.255.255.255/32,::/0,2001:db8::/32,::1/128,1:2:3:4:5:6:7:8/64}",
		"deniedCIDRs={::ffff:10.0.0.0/104,fd00::/8,64:ff9b::192.0.2.0/120,1:2:3:4:5:6:7::/112,FE80::/10}",
		"externalIPs={192.0.2.0/24,2001:db8::/64}", "watchNamespaces={a,team-1,1st}", "gatewayClass=edge.example.com",
		"usage.databaseSecret=usage.db-1", "trustDomain=prod_1.example.com", "kvEvents.port=5557,replicas=1",
		"envoyImage=registry.example.com:5000/envoy:1@sha256:" + strings.Repeat("0", 64), "gatewayClass=",
	} {
		if _, err := runHelm(t, "template", chartDir, "--set", set); err != nil {
			t.Errorf("--set %s: got %v, want objects", set, err)
		}
	}
}

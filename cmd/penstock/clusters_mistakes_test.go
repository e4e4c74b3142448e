package main

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/penstock-project/penstock/picker/modelserver"
)

func findsInvalidExports(t *testing.T, west *site) {
	t.Helper()
	for what, c := range map[string]struct{ annotations, want string }{
		"an unknown value": {`inference.networking.x-k8s.io/export: Everywhere`,
			`metadata.annotations[inference.networking.x-k8s.io/export]: "Everywhere" is not supported`},
		"a mode alone": {`inference.networking.x-k8s.io/export-mode: ParentMode`,
			`metadata.annotations[inference.networking.x-k8s.io/export-mode]: it has no effect without inference.networking.x-k8s.io/export`},
		"an unknown mode": {
			`inference.networking.x-k8s.io/export: ClusterSet, inference.networking.x-k8s.io/export-mode: Magic`,
			`metadata.annotations[inference.networking.x-k8s.io/export-mode]: "Magic" is not supported`,
		},
		"a weight of no limit": {`inference.networking.x-k8s.io/export: ClusterSet, penstock.dev/export-weight: "-1"`,
			`metadata.annotations[penstock.dev/export-weight]: "-1" is no weight`},
	} {
		west.write("pool.yaml", exportedPool(c.annotations))
		west.finds(what, c.want)
	}
}

func TestClusterSet_MistakesAreFindingsAndOthersServe(t *testing.T) {
	t.Parallel()
	port := freePort(t)
	here := up(t, map[string]string{
		"gateway.yaml": gatewayYAML("gw", port), "set.yaml": clusterSetYAML("here"),
		"route.yaml": routeYAML("far", "/",
			"{group: inference.networking.x-k8s.io, kind: InferencePoolImport, name: chat}"),
	}, "--members-listen", "127.0.0.1:"+fmt.Sprint(freePort(t)))
	east := exportingSite(t, "east")
	westFiles := chatFiles(freePort(t), modelServer(t, modelserver.Config{Name: "west-1", Model: "llama"}))
	westFiles["set.yaml"] = clusterSetYAML("west")
	west := up(t, westFiles, "--members-listen", "127.0.0.1:"+fmt.Sprint(freePort(t)))
	here.join(east)
	good := east.show()
	serves := func() {
		t.Helper()
		answers(t, local(port), http.StatusOK)
	}
	serves()
	finds := func(what, set string, want ...string) {
		t.Helper()
		here.write("set.yaml", set)
		here.finds(what, want...)
		serves()
	}
	westAt := strings.Fields(west.show()[strings.Index(west.show(), "address:"):])[1]
	finds("an expired certificate",
		clusterSetYAML("here", good, memberYAML(t, "west", westAt, caBundle(t, -time.Hour))),
		"ClusterSet gpus spec.members[1].peer.bundle: member west: its certificates expired on",
		"run `penstock clusters show` there, and `penstock clusters join` here")
	finds("the certificate of another cluster",
		clusterSetYAML("here", good, memberYAML(t, "west", westAt, caBundle(t, time.Hour))),
		"ClusterSet gpus spec.members[1]: member west: the certificate at "+westAt+" is not valid for it",
		"run `penstock clusters show` there, and join it again here")
	finds("another member at the address",
		clusterSetYAML("here", good, memberYAML(t, "north", westAt, caBundle(t, time.Hour))),
		"ClusterSet gpus spec.members[1]: member north: the certificate at "+westAt+" is not valid for it")
	ranges := strings.NewReplacer("  cluster: here\n", "  cluster: here\n  podCIDRs: [10.0.0.0/8]\n", "cleartext: true",
		"podCIDRs: [127.0.0.0/8, 10.1.0.0/16]")
	finds("overlapping ranges", ranges.Replace(clusterSetYAML("here", good)),
		"ClusterSet gpus spec.members[0].allow.podCIDRs[1]: 10.1.0.0/16 of member east overlaps 10.0.0.0/8 of this "+
			"cluster (spec.podCIDRs[0])", "export-mode: ParentMode")
	finds("two members of one name",
		clusterSetYAML("here", good, memberYAML(t, "east", "192.0.2.1:1", caBundle(t, time.Hour))),
		"ClusterSet gpus spec.members[1]", "uplicate")
	finds("a name that is no DNS label",
		clusterSetYAML("here", good, memberYAML(t, "West_1", westAt, caBundle(t, time.Hour))),
		"ClusterSet gpus spec.members[1].name")
	finds("one address for two",
		clusterSetYAML("here",
			memberYAML(t, "aaa", strings.Fields(good[strings.Index(good, "address:"):])[1], caBundle(t, time.Hour)),
			good),
		"ClusterSet gpus spec.members[1].peer.address: member east:", "is the address of member aaa too")
	finds("no address",
		clusterSetYAML("here", good,
			strings.Replace(memberYAML(t, "west", westAt, caBundle(t, time.Hour)), "    address: "+westAt+"\n", "", 1)),
		"ClusterSet gpus spec.members[1].peer.address: is missing")
	finds("no peer", clusterSetYAML("here", good, "- {name: west}\n"),
		"ClusterSet gpus spec.members[1]: it has no peer, kubeconfig or clusterProfile: add the peer that penstock "+
			"clusters show prints at that cluster")
	finds("a hub that relayed",
		clusterSetYAML("here", good,
			strings.Replace(memberYAML(t, "hub", westAt, caBundle(t, time.Hour)), "  peer:\n",
				"  peer:\n    hub: true\n", 1)),
		"ClusterSet gpus spec.members[1].peer.hub: no hub relays between Penstocks any more: remove this member, and "+
			"join the clusters that it relayed to each other with penstock clusters join")
	finds("members of a hub",
		clusterSetYAML("here", strings.Replace(good, "  name: ", "  draining: true\n  name: ", 1),
			"- {name: west, kubeconfig: {file: west.yaml}}\n"),
		"ClusterSet gpus spec.members[0].draining: member east: it has no effect on a member that has a peer",
		"member west: it is a member of `penstock hub`, which reads its API server; this process does not use it")
	here.write("set.yaml", clusterSetYAML("here", good))
	findsInvalidExports(t, west)
	serves()
}

// The importer allows none of the model servers' addresses. The exporter's condition shows the
// reason.
func TestClusterSet_ExportOfWhichNothingIsAllowedIsNotExported(t *testing.T) {
	t.Parallel()
	here := up(t, map[string]string{"gateway.yaml": gatewayYAML("gw", freePort(t)), "set.yaml": clusterSetYAML("here")},
		"--members-listen", "127.0.0.1:0")
	east := exportingSite(t, "east")
	here.join(east)
	condition := func(what, want string) {
		t.Helper()
		eventually(t, what, func() error {
			if text := east.penstock("status", "-o", "json"); !strings.Contains(text, want) {
				return fmt.Errorf("got\n%s\nwant %q; here:\n%s", text, want, here.penstock("status"))
			}
			return nil
		})
	}
	condition("imported", "imported by 1 member;")
	here.write("set.yaml",
		strings.Replace(clusterSetYAML("here", east.show()), "cleartext: true", "podCIDRs: [10.99.0.0/16]", 1))
	condition("not allowed",
		"imported by 0 members, and not by others: NotAllowed: here (none of its model servers is allowed: address "+
			"127.0.0.1 is outside the ranges that the ClusterSet allows member east)")
	here.write("set.yaml", clusterSetYAML("here", east.show()))
	condition("allowed again", "imported by 1 member;")
}

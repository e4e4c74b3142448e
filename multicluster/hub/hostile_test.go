package hub

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/penstock-project/penstock/discovery/filesystem"
	"github.com/penstock-project/penstock/discovery/kube/kubetest"
	"github.com/penstock-project/penstock/manifests/inferenceapi"
	"github.com/penstock-project/penstock/xds/xdstest/poll"
)

// site is a hub whose members are API servers in this process.
type site struct {
	testing.TB
	hub     *Hub
	members map[string]*kubetest.Server
	log     *lines
}

// newSite makes a hub with members. Each has namespace team, and validates statuses like a real API
// server.
func newSite(t testing.TB, names ...string) *site {
	t.Helper()
	s := &site{TB: t, members: map[string]*kubetest.Server{}, log: &lines{}}
	dir := t.TempDir()
	set :=
		"apiVersion: penstock.dev/v1alpha1\nkind: ClusterSet\nmetadata: {name: set}\nspec:\n  cluster: management\n  " +
			"members:\n"
	for _, name := range names {
		api := kubetest.New(t)
		api.Strict(t)
		api.Apply(t, "namespaces", `{apiVersion: v1, kind: Namespace, metadata: {name: kube-system}}`)
		api.Apply(t, "namespaces", `{apiVersion: v1, kind: Namespace, metadata: {name: team}}`)
		s.members[name] = api
		set += fmt.Sprintf(
			"  - {name: %[1]s, kubeconfig: {file: %[1]s.yaml}, allow: {namespaces: [team], cleartext: true}}\n", name)
		text := fmt.Sprintf(
			`{apiVersion: v1, kind: Config, current-context: it, contexts: [{name: it, context: {cluster: it, user: it}}],
  clusters: [{name: it, cluster: {server: %q}}], users: [{name: it, user: {}}]}`, api.Config().Host)
		if err := os.WriteFile(filepath.Join(dir, name+".yaml"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.MkdirAll(filepath.Join(dir, "set"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "set", "set.yaml"), []byte(set), 0o600); err != nil {
		t.Fatal(err)
	}
	var err error
	s.hub, err = New(Config{
		Paths: []string{filepath.Join(dir, "set")}, StateDir: filepath.Join(dir, "state"), Kubeconfigs: dir,
		Disk: &filesystem.Disk{},
		Log:  slog.New(slog.NewTextHandler(s.log, nil)),
	})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// run runs the hub until the test ends.
func (s *site) run() {
	s.Helper()
	kubetest.Run(s, s.hub.Run)
}

// exports makes a member export a pool in namespace team with a picker at an address.
func (s *site) exports(member, pool, address string) {
	s.Helper()
	api := s.members[member]
	api.Apply(s, "services", fmt.Sprintf(`{apiVersion: v1, kind: Service, metadata: {namespace: team, name: %s-epp},
  spec: {type: LoadBalancer, ports: [{port: 9002}]}, status: {loadBalancer: {ingress: [{ip: %s}]}}}`, pool, address))
	api.Put("inferencepools", picked(pool))
}

// picked returns an exported InferencePool in namespace team, with an external picker.
func picked(name string) kubetest.Object {
	return kubetest.Object{
		"apiVersion": "inference.networking.k8s.io/v1", "kind": "InferencePool",
		"metadata": kubetest.Object{
			"namespace": "team", "name": name, "annotations": kubetest.Object{
				"inference.networking.x-k8s.io/export": "ClusterSet",
			},
		},
		"spec": kubetest.Object{
			"selector":          kubetest.Object{"matchLabels": kubetest.Object{"app": "x"}},
			"targetPorts":       []any{kubetest.Object{"number": 8000}},
			"endpointPickerRef": kubetest.Object{"name": name + "-epp", "port": kubetest.Object{"number": 9002}},
		},
	}
}

// imports describes the import of a pool at a member: its clusters with their first addresses.
func (s *site) imports(member, pool string) string {
	s.Helper()
	obj := s.members[member].Get(inferenceapi.Group, "inferencepoolimports", "team/"+pool)
	raw, err := json.Marshal(obj["status"])
	if err != nil {
		s.Fatal(err)
	}
	var status inferenceapi.InferencePoolImportStatus
	if err := json.Unmarshal(raw, &status); err != nil {
		s.Fatal(err)
	}
	var out []string
	for _, c := range status.Clusters {
		text := c.Name
		if c.EndpointPicker != nil {
			text += " " + c.EndpointPicker.Service[0].Addresses[0]
		}
		out = append(out, text)
	}
	slices.Sort(out)
	return strings.Join(out, ", ")
}

// condition returns the message of the condition Exported of a member's pool.
func (s *site) condition(member, pool string) string {
	s.Helper()
	raw, err := json.Marshal(s.members[member].Get("inference.networking.k8s.io", "inferencepools",
		"team/"+pool)["status"])
	if err != nil {
		s.Fatal(err)
	}
	var status struct {
		Parents []struct {
			Conditions []struct{ Type, Status, Reason, Message string }
		}
	}
	if err := json.Unmarshal(raw, &status); err != nil {
		s.Fatal(err)
	}
	for _, p := range status.Parents {
		for _, c := range p.Conditions {
			return c.Status + "/" + c.Reason + ": " + c.Message
		}
	}
	return ""
}

// until polls until get returns want.
func (s *site) until(what, want string, get func() string) {
	s.Helper()
	poll.NoError(s, what, poll.Limit, func() error {
		if got := get(); got != want {
			return fmt.Errorf("%s: %.400q, want %q", what, got, want)
		}
		return nil
	})
}

// problem polls until the hub's problem with this key contains all texts.
func (s *site) problem(key string, want ...string) {
	s.Helper()
	poll.NoError(s, "what is wrong with "+key, poll.Limit, func() error {
		m := s.hub.status().Problems[key]
		if m == nil {
			return fmt.Errorf("nothing is wrong with %s, want %q", key, want)
		}
		for _, w := range want {
			if !strings.Contains(m.Field+": "+m.Problem, w) {
				return fmt.Errorf("got %+v, want %q", m, w)
			}
		}
		return nil
	})
}

// hostilePool is a way to make an exported pool invalid, at an API server that does not validate.
type hostilePool struct {
	change  func(pool, service kubetest.Object) // modifies a valid pool
	beside  func(name string) kubetest.Object   // returns a PoolExport for the pool; nil: none
	problem string                              // expected in the condition Exported
}

// owned returns a hostilePool whose PoolExport has this entry.
func owned(entry kubetest.Object) hostilePool {
	return hostilePool{
		change: func(pool, _ kubetest.Object) { delete(pool["spec"].(kubetest.Object), "endpointPickerRef") },
		beside: func(name string) kubetest.Object {
			entry["name"], entry["routingMode"], entry["targetPortNumber"] = "evil", "EndpointMode", 8000
			return kubetest.Object{
				"apiVersion": "penstock.dev/v1alpha1", "kind": "PoolExport",
				"metadata": kubetest.Object{"namespace": "team", "name": name + ".evil"},
				"spec":     kubetest.Object{"cluster": "evil", "pool": name},
				"status":   kubetest.Object{"entry": entry},
			}
		},
	}
}

// hostilePools returns hostilePools by name. The member east exports valid pools with the same
// names.
func hostilePools() map[string]hostilePool {
	long := func(n int) string { return strings.Repeat("a", n) }
	spec := func(o kubetest.Object) kubetest.Object { return o["spec"].(kubetest.Object) }
	ports := func(numbers ...int) func(pool, _ kubetest.Object) {
		return func(pool, _ kubetest.Object) {
			list := []any{}
			for _, n := range numbers {
				list = append(list, kubetest.Object{"number": n})
			}
			spec(pool)["targetPorts"] = list
		}
	}
	picker := func(change kubetest.Object) kubetest.Object {
		out := kubetest.Object{"service": []any{kubetest.Object{"addresses": []any{"192.0.2.66"}}}}
		maps.Copy(out, change)
		return kubetest.Object{"endpointPicker": out}
	}
	addresses := []any{}
	for i := range 65 {
		addresses = append(addresses, fmt.Sprint("192.0.2.", i))
	}
	with := func(p hostilePool, problem string) hostilePool { p.problem = problem; return p }
	service := func(change func(service kubetest.Object), problem string) hostilePool {
		return hostilePool{change: func(_, service kubetest.Object) { change(service) }, problem: problem}
	}
	return map[string]hostilePool{
		"no-port":    {change: ports(), problem: "EndpointMode needs targetPorts"},
		"nine-ports": {change: ports(1, 2, 3, 4, 5, 6, 7, 8, 9), problem: "targetPorts has 9 elements, at most 8"},
		"port-0":     {change: ports(0), problem: "targetPorts[0].number is 0, at least 1"},
		"port-70000": {change: ports(8000, 70000), problem: "targetPorts[1].number is 70000, at most 65535"},
		"port-least": {change: ports(-1 << 31), problem: "targetPortNumber is -2147483648, at least 1"},
		"h3": {change: func(pool, _ kubetest.Object) { spec(pool)["appProtocol"] = long(1 << 20) },
			problem: "appProtocol is"},
		"failuremode": {change: func(pool, _ kubetest.Object) {
			spec(pool)["endpointPickerRef"].(kubetest.Object)["failureMode"] = "Sometimes"
		}, problem: `failureMode is "Sometimes"`},
		"mode": {change: func(pool, _ kubetest.Object) {
			annotations := pool["metadata"].(kubetest.Object)["annotations"].(kubetest.Object)
			annotations["inference.networking.x-k8s.io/export-mode"] = long(1 << 20)
		}, problem: "is not supported"},
		"weight": {change: func(pool, _ kubetest.Object) {
			pool["metadata"].(kubetest.Object)["annotations"].(kubetest.Object)["penstock.dev/export-weight"] = "-1"
		}, problem: "is no weight"},
		"service-type": service(func(s kubetest.Object) {
			spec(s)["type"] = "Weird"
			spec(s)["clusterIP"] = "192.0.2.5"
		}, `service[0].type is "Weird"`),
		"service-port": service(func(s kubetest.Object) {
			spec(s)["ports"] = []any{kubetest.Object{"port": 9002, "appProtocol": long(1 << 20)}}
		}, "ports[0].appProtocol has 1048576 characters, at most 317"),
		"port-name": service(func(s kubetest.Object) {
			spec(s)["ports"] = []any{kubetest.Object{"port": 9002, "name": long(254)}}
		}, "ports[0].name has 254 characters, at most 253"),
		"health-port": service(func(s kubetest.Object) {
			spec(s)["ports"] = []any{kubetest.Object{"port": 9002}, kubetest.Object{"port": 90000, "name": "health"}}
		}, "endpointPicker.health.port is 90000, at most 65535"),
		"host": service(func(s kubetest.Object) {
			spec(s)["type"] = "ExternalName"
			spec(s)["externalName"] = long(140 << 10)
		},
			"service[0].addresses[0] has 143360 characters, at most 253"),
		"addresses": with(owned(picker(kubetest.Object{"service": []any{kubetest.Object{"addresses": addresses}}})),
			"addresses has 65 elements, at most 64"),
		"no-service": with(owned(picker(kubetest.Object{"service": []any{}})), "endpointPicker.service"),
		"picker-name": with(owned(picker(kubetest.Object{"name": long(140 << 10)})),
			"endpointPicker.name has 143360 characters, at most 253"),
		"picker-pool": with(owned(picker(kubetest.Object{"pool": "Team/Chat"})), "endpointPicker.pool is"),
		"health-0": with(owned(picker(kubetest.Object{"health": kubetest.Object{"port": 0}})),
			"endpointPicker.health.port is 0, at least 1"),
		"twice": with(owned(func() kubetest.Object {
			out := picker(nil)
			out["podCIDRs"] = []any{"10.0.0.0/8", "10.0.0.0/8"}
			return out
		}()), `podCIDRs[1] has "10.0.0.0/8" twice`),
		"large": with(owned(picker(kubetest.Object{"service": slices.Repeat([]any{kubetest.Object{
			"addresses": slices.Repeat([]any{long(200)}, 64),
		}}, 16)})), "bytes, at most 32768"),
	}
}

// Invalid objects of one member must not affect the entries of other members in the same imports,
// nor later changes of these entries.
func TestHub_HostileMemberTakesNoImportFromOthers(t *testing.T) {
	s := newSite(t, "east", "evil", "west")
	all := hostilePools()
	names := slices.Sorted(maps.Keys(all))
	for i, name := range names {
		s.exports("east", name, fmt.Sprint("192.0.2.", i))
		s.publish(name, all[name])
	}
	s.exports("evil", "good", "198.51.100.7")
	s.hostile("evil", "Chat_%2F", kubetest.Object{"targetPorts": []any{}})
	s.run()
	s.until("the valid export of the hostile member", "evil 198.51.100.7",
		func() string { return s.imports("west", "good") })
	for i, name := range names {
		s.until("the import "+name, fmt.Sprint("east 192.0.2.", i), func() string { return s.imports("west", name) })
		s.exports("east", name, fmt.Sprint("192.0.2.", 100+i))
	}
	for i, name := range names {
		s.until("the import "+name+" after a change", fmt.Sprint("east 192.0.2.", 100+i),
			func() string { return s.imports("west", name) })
		poll.NoError(t, "the condition of "+name, poll.Limit, func() error {
			if got := s.condition("evil", name); !strings.HasPrefix(got, "False/NotSupported: ") ||
				!strings.Contains(got, all[name].problem) || len(got) > 1500 {
				return fmt.Errorf("%s: %.1600q, want %q", name, got, all[name].problem)
			}
			if got := s.condition("east", name); got != "True/Exported: imported by 2 members" {
				return fmt.Errorf("%s of east: got %.1600q, want imported by 2 members", name, got)
			}
			return nil
		})
	}
	s.problem("evil"+unfit, "spec.members[evil]",
		"InferencePool team/addresses: its endpointPicker.service[0].addresses has 65 elements", "more")
	for line := range strings.Lines(s.log.String()) {
		if len(line) > 4<<10 {
			t.Errorf("a line of the log has %d bytes: %.300s, want at most %d", len(line), line, 4<<10)
		}
	}
}

// publish makes the member evil export a pool in a hostile form.
func (s *site) publish(name string, h hostilePool) {
	s.Helper()
	pool := picked(name)
	service := kubetest.Parse(s, fmt.Sprintf(`{apiVersion: v1, kind: Service, metadata: {namespace: team, name: %s-epp},
  spec: {type: LoadBalancer, ports: [{port: 9002}]}, status: {loadBalancer: {ingress: [{ip: 192.0.2.66}]}}}`, name))
	h.change(pool, service)
	s.members["evil"].Put("services", service)
	s.members["evil"].Put("inferencepools", pool)
	if h.beside != nil {
		s.members["evil"].Put("poolexports", h.beside(name))
	}
}

// hostile makes a member export a pool with this spec.
func (s *site) hostile(member, name string, spec kubetest.Object) {
	pool := picked(name)
	pool["spec"] = spec
	s.members[member].Put("inferencepools", pool)
}

// If an export becomes invalid, importers keep its previous version until it is valid again.
func TestHub_ExportThatBecomesInvalidKeepsItsLastVersion(t *testing.T) {
	s := newSite(t, "east", "evil", "west")
	s.exports("east", "chat", "192.0.2.1")
	s.exports("evil", "chat", "198.51.100.1")
	s.run()
	both := "east 192.0.2.1, evil 198.51.100.1"
	s.until("the import", both, func() string { return s.imports("west", "chat") })
	pool := picked("chat") // its Service stays, because the hub may read it first, as a valid change
	hostilePools()["port-70000"].change(pool, nil)
	s.members["evil"].Put("inferencepools", pool)
	s.problem("evil"+unfit, "targetPorts[1].number is 70000")
	s.exports("east", "chat", "192.0.2.2")
	s.until("the import after the change of another", "east 192.0.2.2, evil 198.51.100.1",
		func() string { return s.imports("west", "chat") })
	s.exports("evil", "chat", "198.51.100.2")
	s.until("the import after the correction", "east 192.0.2.2, evil 198.51.100.2",
		func() string { return s.imports("west", "chat") })
	poll.NoError(t, "the problem is resolved", poll.Limit, func() error {
		if m := s.hub.status().Problems["evil"+unfit]; m != nil {
			return fmt.Errorf("%+v", m)
		}
		return nil
	})
}

// Because of an admission policy, an API server may reject an import's status that the schema
// allows. It rejects the whole status because of one entry. The hub must find the entry, leave it
// out, and report it.
func TestHub_EntryThatAnAPIServerRejectsBlocksNoOther(t *testing.T) {
	s := newSite(t, "east", "evil", "north", "west")
	forbidden := func(resource string, obj kubetest.Object) string {
		if raw, _ := json.Marshal(obj["status"]); resource == "inferencepoolimports" &&
			strings.Contains(string(raw), "198.51.100.66") {
			return "policy: address 198.51.100.66 is forbidden: " + strings.Repeat("because ", 1<<16)
		}
		return ""
	}
	s.members["west"].Reject(forbidden)
	s.exports("east", "chat", "192.0.2.1")
	s.exports("evil", "chat", "198.51.100.66")
	s.exports("north", "chat", "192.0.2.3")
	s.exports("evil", "alone", "198.51.100.66")
	s.run()
	s.until("the import", "east 192.0.2.1, north 192.0.2.3", func() string { return s.imports("west", "chat") })
	s.until("the import at another API server", "east 192.0.2.1, evil 198.51.100.66",
		func() string { return s.imports("north", "chat") })
	poll.NoError(t, "the condition", poll.Limit, func() error {
		got := s.condition("evil", "chat")
		if !strings.HasPrefix(got, "False/NotSupported: ") ||
			!strings.Contains(got, "address 198.51.100.66 is forbidden") || len(got) > 1500 {
			return fmt.Errorf("got %.1600s, want NotSupported, as 198.51.100.66 is forbidden", got)
		}
		if got := s.condition("east", "chat"); got != "True/Exported: imported by 3 members" {
			return fmt.Errorf("of east: got %s, want imported by 3 members", got)
		}
		return nil
	})
	tries := func() int { return len(s.members["west"].Asked("/inferencepoolimports/chat/status?dryRun=All")) }
	before := tries()
	s.exports("east", "chat", "192.0.2.9")
	s.until("the import after a change", "east 192.0.2.9, north 192.0.2.3",
		func() string { return s.imports("west", "chat") })
	if n := tries() - before; before == 0 || n > 0 {
		t.Errorf("tries of a rejected entry: got %d at first, %d more with a change of another, want some and 0",
			before, n)
	}
	s.exports("evil", "chat", "198.51.100.1")
	s.until("the import after the correction", "east 192.0.2.9, evil 198.51.100.1, north 192.0.2.3",
		func() string { return s.imports("west", "chat") })
	found := slices.ContainsFunc(strings.Split(s.log.String(), "\n"), func(line string) bool {
		return strings.Contains(line, "an entry of an import is left out") && strings.Contains(line, "cluster=evil") &&
			strings.Contains(line, "198.51.100.66")
	})
	if !found {
		t.Errorf("the log: got %.2000s, want a line that names the entry", s.log)
	}
}

// The hub copies errors of one member's API server into conditions at other members. The API
// servers of the other members must accept these texts.
func TestHub_ErrorOfOneMemberFitsTheConditionsOfOthers(t *testing.T) {
	s := newSite(t, "east", "evil", "west")
	s.members["evil"].Reject(func(string, kubetest.Object) string { return strings.Repeat("no\n", 1<<20) })
	s.exports("east", "chat", "192.0.2.1")
	s.run()
	poll.NoError(t, "the condition", poll.Limit, func() error {
		got := s.condition("east", "chat")
		if !strings.Contains(got, "imported by 1 member, and not by others: ") || !strings.Contains(got, "evil") ||
			len(got) > 1500 {
			return fmt.Errorf("got %.1600s, want that evil does not import it", got)
		}
		return nil
	})
}

// A member that reports the UID of another member's cluster must not replace that member.
func TestHub_MemberWithTheUIDOfAnotherTakesNoPlace(t *testing.T) {
	s := newSite(t, "east", "evil", "west")
	s.exports("evil", "other", "198.51.100.1")
	uid := "8d7f0a52-0000-4000-8000-000000000001"
	for _, name := range []string{"east", "evil"} {
		s.members[name].SetUID("", "namespaces", "kube-system", uid)
	}
	s.run()
	s.until("the import", "evil 198.51.100.1", func() string { return s.imports("west", "other") })
	s.exports("east", "chat", "192.0.2.1")
	s.until("the import of the honest member's pool", "east 192.0.2.1",
		func() string { return s.imports("west", "chat") })
	poll.NoError(t, "a finding names both", poll.Limit, func() error {
		text := fmt.Sprint(s.hub.status().Problems["evil"+twin], s.hub.status().Problems["east"+twin])
		if !strings.Contains(text, "reports the UID of the cluster of member") {
			return fmt.Errorf("got %s, want that one reports the UID of the other's cluster", text)
		}
		return nil
	})
}

// If an object of a member cannot be decoded, the member's problem names the object.
func TestHub_ObjectThatCannotBeDecodedIsNamed(t *testing.T) {
	s := newSite(t, "east", "evil", "west")
	s.exports("east", "chat", "192.0.2.1")
	s.exports("evil", "chat", "198.51.100.1")
	s.hostile("evil", "odd", kubetest.Object{"targetPorts": []any{kubetest.Object{"number": 1 << 40}}})
	s.run()
	s.until("the import", "east 192.0.2.1, evil 198.51.100.1", func() string { return s.imports("west", "chat") })
	s.problem("evil"+unfit, "InferencePool team/odd cannot be decoded")
}

func TestPace_MemberThatChangesAllTheTimeWaits(t *testing.T) {
	now := time.Now()
	var p pace
	if d := p.spent(10*time.Millisecond, 900, now); d != 0 {
		t.Errorf("the first decision about 900 pools waits for %v, want 0", d)
	}
	changes := 0
	for end := now.Add(time.Hour); now.Before(end); {
		changes += 1000
		now = now.Add(p.spent(time.Millisecond, 1000, now) + 50*time.Millisecond)
	}
	if perSecond := changes / 3600; perSecond > 250 || perSecond < 20 {
		t.Errorf("%d exports a second are followed, want at most 250 and at least 20", perSecond)
	}
	p = pace{}
	for range 10_000 {
		if d := p.spent(time.Millisecond, 1, now); d > 0 {
			t.Fatalf("a pool that changes ten times a second waits for %v, want 0", d)
		}
		now = now.Add(100 * time.Millisecond)
	}
}

func TestBoundedLog_CutsTextsErrorsAndNames(t *testing.T) {
	var out lines
	long := strings.Repeat("é", 1<<20)
	log := slog.New(boundedLog{slog.NewTextHandler(&out, nil)})
	log.With("member", long).WithGroup("g").Info(long, "error", fmt.Errorf("e: %s", long), "name", long, "n", 1)
	if n := len(out.String()); n > 5*longestText || !strings.Contains(out.String(), "g.n=1") {
		t.Errorf("a line of %d bytes, want at most %d, with g.n=1", n, 5*longestText)
	}
	if log.Enabled(context.Background(), slog.LevelDebug) {
		t.Error("the level is lost")
	}
}

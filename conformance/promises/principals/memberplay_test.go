package principals

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/penstock-project/penstock/conformance/promises/parties"
	"github.com/penstock-project/penstock/multicluster/federation"
)

// play makes all members send their cells. It waits until each cell is acknowledged or its stream
// has ended, and observes the outcomes.
func (m *members) play() {
	m.t.Helper()
	m.join()
	end := m.rig.beside(func() error { return m.rig.expect("good.test", goodReply) })
	m.evil.Begin(m.exports)
	for _, c := range m.list {
		if c.own != nil {
			c.own.Begin(func(v *parties.Subscriber) error { return m.one(c, v) })
		}
	}
	for _, c := range m.list {
		if strings.HasPrefix(c.field, "load.") {
			m.rig.Eventually(c.String()+": the load is asked for", func() error { return m.asked(c.own) })
		}
	}
	close(m.wanted)
	m.requests()
	m.rig.Eventually("every cell has arrived", func() error {
		for _, c := range m.list {
			select {
			case <-c.done:
			default:
				if c.own != nil {
					return fmt.Errorf("%s: its message is not acknowledged and its stream open, want either otherwise",
						c)
				}
			}
		}
		return nil
	})
	m.rig.Eventually("all exports are imported or not", func() error {
		if n := len(m.clusters().of("evil").Imports); n < m.pools() {
			return fmt.Errorf("%d of %d are listed, want all", n, m.pools())
		}
		return nil
	})
	m.rig.settle("none.yaml", "")
	m.rig.harmless("what the members sent")
	m.judge()
	end()
	m.end()
}

func (m *members) pools() (n int) {
	for _, c := range m.list {
		if c.pool != "" {
			n++
		}
	}
	return n + 2
}

func (m *members) exports(v *parties.Subscriber) error {
	items := []*discoveryv3.Resource{parties.State(1)}
	for i, name := range []string{"endpoint", "parent"} {
		items = append(items, parties.Item("evil/"+name, encoded(m.values["record"][i])))
	}
	for _, c := range m.list {
		if c.pool == "" {
			continue
		}
		key := c.pool
		kind, text := m.value(c.cell)
		if kind == "part" {
			head := copied(m.values["record"][0])
			head["parts"] = 1
			items = append(items, parties.Item(key, encoded(head)))
			key += "#0"
		}
		items = append(items, parties.Item(key, text))
	}
	return v.Publish("exports", items)
}

// one sends a member's cell on the member's first stream, and nothing on later streams.
func (m *members) one(c *memberCell, v *parties.Subscriber) error {
	if c.begun.Swap(true) {
		return nil
	}
	c.ending = m.send(c, v)
	close(c.done)
	return nil
}

func (m *members) send(c *memberCell, v *parties.Subscriber) error {
	state, record := parties.State(1), encoded(m.values["record"][0])
	root, steps := split(c.field)
	if root == "state" {
		_, text := m.value(c.cell)
		return v.Publish("exports", []*discoveryv3.Resource{parties.Item("", text)})
	}
	first := []*discoveryv3.Resource{state}
	if root == "load" {
		first = append(first, parties.Item("evil/least", record))
	}
	if err := v.Publish("exports", first); err != nil {
		return err
	}
	switch root {
	case "key":
		return v.Publish("exports", []*discoveryv3.Resource{parties.Item(m.key(c.cell), record)})
	case "placed":
		_, text := m.value(c.cell)
		return v.Publish("imports", []*discoveryv3.Resource{parties.Item("east/shared/shared", text)})
	case "load":
		select {
		case <-m.wanted:
		case <-v.Context().Done():
			return v.Context().Err()
		}
		_, text := m.value(c.cell)
		return v.Publish("loads", []*discoveryv3.Resource{parties.Item("east/evil/least", text)})
	}
	message := &discoveryv3.DeltaDiscoveryResponse{
		TypeUrl: "exports", SystemVersionInfo: "hostile", Nonce: "2",
		Resources:        []*discoveryv3.Resource{parties.Item("evil/"+c.own.Name, record)},
		RemovedResources: []string{"evil/none"},
	}
	setProto(m.t, message.ProtoReflect(), steps, c.value, nil, m.fields[c.field].class)
	if err := v.SendMsg(message); err != nil {
		return err
	}
	return v.Acknowledged("exports")
}

func (m *members) key(c cell) string {
	pool := map[string]string{"key.Namespace": "evil", "key.Name": "mine"}
	pool[c.field] = fmt.Sprint(m.literal(c, nil))
	if c.value == anothersNamespace {
		pool["key.Name"] = "victim"
	}
	return pool["key.Namespace"] + "/" + pool["key.Name"]
}

// asked returns an error until this process has sent member p a request for the load of evil/least.
func (m *members) asked(p *parties.Publisher) error {
	first, err := proto.Marshal(&discoveryv3.DeltaDiscoveryRequest{TypeUrl: "wanted", Node: &corev3.Node{Id: "x"}})
	if err != nil {
		return err
	}
	got, err := m.follow(p, first)
	if err != nil {
		return err
	}
	for _, r := range got.GetResources() {
		if strings.HasSuffix(r.GetName(), "/evil/least") {
			return nil
		}
	}
	return fmt.Errorf("%d loads are asked for, want evil's pool least among them", len(got.GetResources()))
}

func (m *members) follow(p *parties.Publisher, messages ...[]byte) (*discoveryv3.DeltaDiscoveryResponse, error) {
	ctx, cancel := context.WithTimeout(m.rig.Context(), 10*time.Second)
	defer cancel()
	certificate := p.Identity(p.Name, federation.ProcessPath, time.Hour)
	return parties.Follow(ctx, m.self.Peer.Address, []tls.Certificate{certificate}, false, messages...)
}

// requests sends the cells of requests. A denied request ends its stream. Any other request is
// answered, or is followed by a request that is answered.
func (m *members) requests() {
	m.t.Helper()
	for _, c := range m.list {
		root, steps := split(c.field)
		if root != "request" {
			continue
		}
		message := &discoveryv3.DeltaDiscoveryRequest{TypeUrl: "exports", Node: &corev3.Node{Id: "x"}}
		setProto(m.t, message.ProtoReflect(), steps, c.value, nil, m.fields[c.field].class)
		first, err := proto.Marshal(message)
		if err != nil {
			m.t.Fatalf("%s: %v", c, err)
		}
		second, _ := proto.Marshal(&discoveryv3.DeltaDiscoveryRequest{TypeUrl: "imports", Node: &corev3.Node{Id: "x"}})
		m.rig.Eventually(c.String(), func() error {
			_, c.ending = m.follow(m.evil, first, second)
			if status.Code(c.ending) == codes.ResourceExhausted && strings.Contains(c.ending.Error(), "streams") {
				return c.ending // earlier streams have not ended yet
			}
			return nil
		})
		close(c.done)
	}
}

type clusterPage struct{ Members []memberStatus }

type memberStatus struct {
	Name             string
	Exports, Imports []struct{ Pool, State, Message string }
	Findings         []string
}

func (p clusterPage) of(name string) memberStatus {
	i := slices.IndexFunc(p.Members, func(s memberStatus) bool { return s.Name == name })
	if i < 0 {
		return memberStatus{}
	}
	return p.Members[i]
}

func (m *members) clusters() (p clusterPage) {
	m.t.Helper()
	m.rig.get(local(m.rig.http), "/clusters", &p)
	return p
}

func (m *members) judge() {
	m.t.Helper()
	doc := m.rig.status()
	own := append(doc.about("evil", "endpoint"), doc.about("evil", "parent")...)
	evil := m.clusters().of("evil")
	for _, i := range evil.Imports {
		if (i.Pool == "evil/endpoint" || i.Pool == "evil/parent") && i.State != "Imported" {
			m.t.Errorf("the sample %s is not imported: %s: %s", i.Pool, i.State, i.Message)
		}
	}
	for _, c := range m.list {
		switch {
		case c.pool != "":
			m.judgeExport(c, evil, doc, own)
		case c.own == nil && c.ending != nil:
			m.saw(c.cell, denied, c.ending.Error())
		case c.own == nil:
			m.saw(c.cell, bounded, "it is answered")
		default:
			m.judgeMember(c)
		}
	}
}

func (m *members) judgeExport(c *memberCell, evil memberStatus, doc document, own []string) {
	m.t.Helper()
	namespace, name, _ := strings.Cut(c.pool, "/")
	for _, i := range evil.Imports {
		if i.Pool != c.pool {
			continue
		}
		if i.State != "Imported" {
			m.saw(c.cell, denied, i.State+": "+i.Message)
			return
		}
		found := without(doc.about(namespace, name), own)
		if len(found) > 0 {
			m.saw(c.cell, finding, strings.Join(found, "\n"))
		} else {
			m.saw(c.cell, bounded, "it is imported")
		}
		return
	}
	m.saw(c.cell, silent, "no page shows the export")
}

func (m *members) judgeMember(c *memberCell) {
	m.t.Helper()
	var status memberStatus
	m.rig.Eventually(c.String(), func() error {
		status = m.clusters().of(c.own.Name)
		status.Findings = slices.DeleteFunc(status.Findings, func(text string) bool {
			return strings.Contains(text, "it is Stale") || strings.Contains(text, "it is Unreachable")
		})
		if c.ending != nil && len(status.Findings) == 0 {
			return errors.New("its stream has ended, and no finding states why: " + c.ending.Error())
		}
		return nil
	})
	if strings.HasPrefix(c.field, "key.") {
		for _, i := range status.Imports {
			if i.State != "Imported" {
				status.Findings = append(status.Findings, "had no effect: "+i.State+": "+i.Message)
			}
		}
	}
	evidence := strings.Join(status.Findings, "\n")
	switch {
	case c.ending != nil, strings.Contains(evidence, "had no effect"), strings.Contains(evidence, "not up to date"):
		m.saw(c.cell, denied, evidence)
	case evidence != "":
		m.saw(c.cell, finding, evidence)
	default:
		m.saw(c.cell, bounded, "it is acknowledged")
	}
}

package federation

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/penstock-project/penstock/multicluster/registry"
	"github.com/penstock-project/penstock/xds/xdstest/poll"
)

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

func (l *lines) reset() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.text.Reset()
}

// again disconnects a site from another site, connects both again, and waits for a new export.
func (s *site) again(from *site, address string) {
	s.t.Helper()
	at := from.listener.Addr().String()
	s.channel.SetPeers()
	poll.Until(s.t, "the connection is closed", func() bool { return !s.channel.Connected(at) })
	from.exports(exported(address))
	s.channel.SetPeers(at)
	s.has(from.name + "=" + address)
}

// knows polls until a site has another site's published bundle.
func (s *site) knows(other *site) {
	s.t.Helper()
	poll.NoError(s.t, "the bundle arrives", poll.Limit, func() error {
		m, _ := s.registry.Member(other.name)
		other.mu.Lock()
		defer other.mu.Unlock()
		if !strings.HasSuffix(string(m.Bundle), string(other.published)) {
			return fmt.Errorf("%s has %q, want %q at the end", s.name, m.Bundle, other.published)
		}
		return nil
	})
}

// renewsTwice replaces a site's CA twice, each time in steps: the site publishes the next CA,
// presents a certificate of the next CA, and stops publishing the old CA. It calls seen after each
// step, and returns the last CA.
func (s *site) renewsTwice(seen func()) (signing *authority) {
	s.t.Helper()
	signing = s.authority
	for range 2 {
		next := newAuthority(s.t)
		for _, step := range []func(){
			func() { s.presents(s.presented, slices.Concat(signing.bundle, next.bundle)) }, // next does not sign yet
			func() { s.presents(next.issue(s.t, id(s.name)), slices.Concat(signing.bundle, next.bundle)) },
			func() { s.presents(s.presented, next.bundle) }, // the old CA has expired
		} {
			step()
			seen()
		}
		signing = next
	}
	return signing
}

// A site replaces its CA twice, while the other site's ClusterSet still has the first bundle. No
// connection may fail in either direction.
func TestFederation_AuthorityRenewsWithoutAFailedConnection(t *testing.T) {
	a, b := newSite(t, "a", id("a")), newSite(t, "b", id("b"))
	join(a, b)
	a.exports(exported("10.0.0.1"))
	b.exports(exported("10.9.0.1"))
	a.has("b=10.9.0.1")
	b.has("a=10.0.0.1")
	// Until the second site joined, it denied the first site, which logged this.
	a.logs.reset()
	b.logs.reset()
	n := 1
	signing := a.renewsTwice(func() {
		b.knows(a)
		n++
		b.again(a, fmt.Sprint("10.0.0.", n))
		a.again(b, fmt.Sprint("10.9.1.", n))
	})
	if text := a.logs.String() + b.logs.String(); strings.Contains(text, "certificate") ||
		strings.Contains(text, "handshake") {
		t.Errorf("a connection failed, want none:\n%s", text)
	}

	// A restarted process still trusts the published bundle, from Member.Published. A process that
	// has only the ClusterSet's bundle does not.
	m, _ := b.registry.Member("a")
	restarted, fresh := newTrust(nil, b.trust.now), newTrust(nil, b.trust.now)
	restarted.set([]Member{{Name: "a", Address: "192.0.2.1:1", Bundle: a.bundle, Published: m.Bundle}})
	fresh.set([]Member{{Name: "a", Address: "192.0.2.1:1", Bundle: a.bundle}})
	replaced := newTrust(nil, b.trust.now)
	replaced.set([]Member{{Name: "a", Address: "192.0.2.1:1", Bundle: newAuthority(t).bundle, Published: m.Bundle}})
	for want, trust := range map[bool]*trust{true: restarted, false: fresh} {
		if err := trust.check(t, signing.issue(t, id("a"))); (err == nil) != want {
			t.Errorf("trusted: %v, want %v", err, want)
		}
	}
	if replaced.check(t, signing.issue(t, id("a"))) == nil {
		t.Error("an operator who replaces the bundle of a member still trusts what was published under the one before")
	}
}

// A member publishes a further CA. The CA must vouch only for the member that published it.
func TestFederation_PublishedBundleVouchesForItsMemberAlone(t *testing.T) {
	a, b, c := newSite(t, "a", id("a")), newSite(t, "b", id("b")), newSite(t, "c", id("c"))
	join(a, b, c)
	evil := newAuthority(t)
	a.presents(a.presented, slices.Concat(a.bundle, evil.bundle))
	c.knows(a)
	if err := c.trust.check(t, evil.issue(t, id("a"))); err != nil {
		t.Errorf("its own ID: %v", err)
	}
	for _, other := range []string{id("b"), id("c"), id("d"), "spiffe://a/other"} {
		if c.trust.check(t, evil.issue(t, other)) == nil {
			t.Errorf("it vouches for %s, want an error", other)
		}
	}
	a.presents(a.presented, bytes.Repeat([]byte("x"), maxBundle+1)) // too large, so b drops the whole state
	a.exports(exported("10.0.0.7"))
	poll.Until(t, "c reports it", func() bool { return strings.Contains(c.logs.String(), "its bundle is too long") })
	a.presents(a.presented, a.bundle)
	c.has("a=10.0.0.7")
}

func TestFederation_RemovedMemberReceivesNothingMore(t *testing.T) {
	a, b := newSite(t, "a", id("a")), newSite(t, "b", id("b"))
	join(a, b)
	a.exports(exported("10.0.0.1"))
	b.has("a=10.0.0.1")
	a.registry.SetMembers(nil)
	a.SetMembers(nil)
	a.exports(exported("10.0.0.2"))
	b.has("a=10.0.0.1, draining")
	if m, _ := b.registry.Member("a"); m.Known.Compare(registry.Stamp{Epoch: 1, Sequence: 3}) >= 0 {
		t.Errorf("b has a's state %v, want one before 1.3", m.Known)
	}
}

package picker

import (
	"context"
	"net"
	"testing"

	"google.golang.org/grpc/peer"
)

// from is the context of a call of an Envoy.
func from(address string) context.Context {
	return peer.NewContext(context.Background(), &peer.Peer{Addr: &net.TCPAddr{IP: net.ParseIP(address), Port: 50000}})
}

func TestUpload_ProcessesShareAnEnvoysLimit(t *testing.T) {
	for _, c := range []struct {
		peers Peers
		want  int64
	}{{nil, 512 << 20}, {onePeer{}, 256 << 20}} {
		p := runPicker(t, Config{Peers: c.peers})
		if u := p.Upload(from("10.0.0.1"), "ns/gw", "192.0.2.1", 3<<29); !u.Take(c.want) || u.Take(1) {
			t.Errorf("with peers %v one upload of 1.5 GiB takes other than %d bytes", c.peers, c.want)
		}
	}
}

func TestUpload_EachEnvoyHasItsOwnLimit(t *testing.T) {
	p := runPicker(t, Config{})
	take := func(envoy, gateway string) bool {
		return p.Upload(from(envoy), gateway, "192.0.2.1", 3<<20).Take(1 << 20)
	}
	if !take("10.0.0.1", "ns/gw") {
		t.Fatal("a third of the limit is not taken")
	}
	if take("10.0.0.1", "ns/gw") {
		t.Error("another connection of the Envoy has a limit of its own")
	}
	if !take("10.0.0.2", "ns/gw") || !take("10.0.0.1", "ns/other") {
		t.Error("an Envoy takes another one's limit")
	}
}

// A client with a network of IPv6 addresses is one client.
func TestUpload_ClientsHaveTheirOwnParts(t *testing.T) {
	p := runPicker(t, Config{})
	take := func(client string) bool { return p.Upload(from("10.0.0.1"), "ns/gw", client, 32<<20).Take(1 << 20) }
	for _, c := range []struct{ client, same, other string }{
		{"192.0.2.1", "::ffff:192.0.2.1", "192.0.2.2"},
		{"2001:db8::1", "2001:db8::2:1", "2001:db8:0:1::1"},
		{"spiffe://east/gateway", "spiffe://east/gateway", "spiffe://west/gateway"},
	} {
		for take(c.client) {
		}
		if take(c.same) {
			t.Errorf("%s has another part than %s", c.same, c.client)
		}
		if !take(c.other) {
			t.Errorf("%s finds no room beside %s", c.other, c.client)
		}
	}
}

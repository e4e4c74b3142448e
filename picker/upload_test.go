package picker

import (
	"context"
	"net"
	"testing"

	"google.golang.org/grpc/peer"
)

func from(address string) context.Context {
	return peer.NewContext(context.Background(), &peer.Peer{Addr: &net.TCPAddr{IP: net.ParseIP(address), Port: 50000}})
}

func TestUpload_ProcessesShareAnEnvoysLimit(t *testing.T) {
	for _, c := range []struct {
		peers Peers
		want  int64
	}{{nil, 512 << 20}, {onePeer{}, 256 << 20}} {
		p := runPicker(t, Config{Peers: c.peers})
		if u := p.Upload(from("10.0.0.1"), "ns/gw", 1<<30); !u.Take(c.want) || u.Take(1) {
			t.Errorf("with peers %v one upload of 1 GiB takes other than %d bytes", c.peers, c.want)
		}
	}
}

func TestUpload_EachEnvoyHasItsOwnLimit(t *testing.T) {
	p := runPicker(t, Config{})
	if u := p.Upload(from("10.0.0.1"), "ns/gw", 1<<20); !u.Take(1 << 19) {
		t.Fatal("half of the limit is not taken")
	}
	if p.Upload(from("10.0.0.1"), "ns/gw", 1<<20).Take(1 << 19) {
		t.Error("another connection of the Envoy has a limit of its own")
	}
	if !p.Upload(from("10.0.0.2"), "ns/gw", 1<<20).Take(1<<19) ||
		!p.Upload(from("10.0.0.1"), "ns/other", 1<<20).Take(1<<19) {
		t.Error("an Envoy takes another one's limit")
	}
}

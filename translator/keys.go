package translator

import (
	"cmp"
	"strconv"
	"strings"

	"github.com/penstock-project/penstock/translator/envoy"
	"github.com/penstock-project/penstock/translator/model"
)

// In these keys, gateway is "namespace/name", and chain a result of model.ChainName or
// model.StreamName.

type gatewayKey interface {
	comparable
	of() string
	String() string
}

type portKey struct {
	gateway string
	socket  model.Socket
}

func (k portKey) of() string     { return k.gateway }
func (k portKey) String() string { return k.gateway + " " + k.socket.Listener() }

func (k portKey) compare(o portKey) int {
	return cmp.Or(strings.Compare(k.gateway, o.gateway), k.socket.Compare(o.socket))
}

type chainKey struct{ gateway, chain string }

func (k chainKey) of() string     { return k.gateway }
func (k chainKey) String() string { return k.gateway + " " + k.chain }

func (k chainKey) compare(o chainKey) int {
	return cmp.Or(strings.Compare(k.gateway, o.gateway), strings.Compare(k.chain, o.chain))
}

type hostKey struct{ gateway, chain, host string }

func (k hostKey) String() string { return k.gateway + " " + k.chain + " " + k.host }

func (k hostKey) compare(o hostKey) int {
	return cmp.Or(strings.Compare(k.gateway, o.gateway), strings.Compare(k.chain, o.chain),
		strings.Compare(k.host, o.host))
}

type blockKey struct {
	gateway, chain string
	block          int
}

func blockOf(gateway, chain, host string) blockKey {
	return blockKey{gateway, chain, envoy.BlockOf(host)}
}

// compare orders blocks by their number as text (10 before 2), like earlier releases.
func (k blockKey) compare(o blockKey) int {
	return cmp.Or(strings.Compare(k.gateway, o.gateway), strings.Compare(k.chain, o.chain),
		strings.Compare(strconv.Itoa(k.block), strconv.Itoa(o.block)))
}

type listenerKey struct{ gateway, listener string }

func (k listenerKey) compare(o listenerKey) int {
	return cmp.Or(strings.Compare(k.gateway, o.gateway), strings.Compare(k.listener, o.listener))
}

type secretKey struct{ gateway, secret string }

func (k secretKey) of() string     { return k.gateway }
func (k secretKey) String() string { return k.gateway + " " + k.secret }

func (k secretKey) compare(o secretKey) int {
	return cmp.Or(strings.Compare(k.gateway, o.gateway), strings.Compare(k.secret, o.secret))
}

type clusterKey struct {
	gateway string
	cluster model.ClusterID
}

func (k clusterKey) of() string     { return k.gateway }
func (k clusterKey) String() string { return k.gateway + " " + k.cluster.String() }

func (k clusterKey) compare(o clusterKey) int {
	return cmp.Or(strings.Compare(k.gateway, o.gateway), k.cluster.Compare(o.cluster))
}

type hopKey struct {
	gateway string
	hop     model.HopID
}

func (k hopKey) of() string     { return k.gateway }
func (k hopKey) String() string { return k.gateway + " " + k.hop.String() }

func (k hopKey) compare(o hopKey) int {
	return cmp.Or(strings.Compare(k.gateway, o.gateway), k.hop.Compare(o.hop))
}

type peerKey struct{ gateway string }

func (k peerKey) of() string            { return k.gateway }
func (k peerKey) String() string        { return k.gateway + " peer" }
func (k peerKey) compare(o peerKey) int { return strings.Compare(k.gateway, o.gateway) }

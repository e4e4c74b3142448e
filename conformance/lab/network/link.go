//go:build linux

package network

import (
	"fmt"
	"net/netip"
	"os/exec"
	"strings"
	"sync"

	"github.com/vishvananda/netlink"
)

// End is a cluster at the end of a link.
type End struct {
	Node *Namespace
	Plan Plan
}

// Direction is one direction of the link between two clusters that JoinNodes has joined.
type Direction struct {
	from, to End

	mu   sync.Mutex
	slow *wire // nil unless packets are delayed
}

// NewDirection returns the direction from one cluster to the other.
func NewDirection(from, to End) *Direction { return &Direction{from: from, to: to} }

// Set replaces the direction's fault. The receiving node handles packets before connection tracking
// and kube-proxy, so a fault also affects established connections.
func (d *Direction) Set(f Fault) error {
	if err := f.Check(); err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.slow != nil && d.slow.by != f.By {
		if err := d.route(interfaceTo(d.to.Plan), d.to.Plan.Node()); err != nil {
			return err
		}
		d.slow.close()
		d.slow = nil
	}
	if f.Effect == Delay && d.slow == nil {
		w, err := newWire(d.from.Node, "slow-"+d.to.Plan.Link(), d.to.Node, "late-"+d.from.Plan.Link(), f.By)
		if err != nil {
			return err
		}
		if err := d.route("slow-"+d.to.Plan.Link(), netip.Addr{}); err != nil {
			w.close()
			return err
		}
		d.slow = w
	}
	return d.filter(f)
}

func interfaceTo(p Plan) string { return "to-" + p.Link() }

func (d *Direction) route(name string, gateway netip.Addr) error {
	l, err := d.from.Node.link.LinkByName(name)
	if err != nil {
		return fmt.Errorf("interface %s: %w", name, err)
	}
	for _, r := range []struct {
		dst     netip.Prefix
		gateway netip.Addr
	}{{netip.PrefixFrom(d.to.Plan.Node(), 32), netip.Addr{}}, {d.to.Plan.All(), gateway}} {
		route := newRoute(l, r.dst, r.gateway, d.from.Plan.Node())
		if err := d.from.Node.link.RouteReplace(route); err != nil {
			return fmt.Errorf("route to %s by %s: %w", r.dst, name, err)
		}
	}
	return nil
}

func (d *Direction) filter(f Fault) error {
	// The table must exist before nft can delete it. All three statements are one transaction.
	table := "table inet lab-link-" + d.from.Plan.Link()
	script := fmt.Sprintf("%s {}\ndelete %s\n", table, table)
	if rules := f.rules(interfaceTo(d.from.Plan)); rules != "" {
		script += fmt.Sprintf(
			"%s {\n  chain arriving {\n    type filter hook prerouting priority raw - 10; policy accept;\n%s  }\n}\n",
			table, rules)
	}
	return d.to.Node.Do(func() error {
		nft := exec.Command("nft", "-f", "-")
		nft.Stdin = strings.NewReader(script)
		if out, err := nft.CombinedOutput(); err != nil {
			return fmt.Errorf("nftables of the link from %s to %s: %w: %s", d.from.Plan.Link(), d.to.Plan.Link(), err,
				strings.TrimSpace(string(out)))
		}
		return nil
	})
}

// newRoute omits an invalid gateway and an invalid src.
func newRoute(l netlink.Link, dst netip.Prefix, gateway, src netip.Addr) *netlink.Route {
	r := &netlink.Route{LinkIndex: l.Attrs().Index, Dst: ipNet(dst), Scope: netlink.SCOPE_LINK}
	if gateway.IsValid() {
		r.Gw, r.Scope = gateway.AsSlice(), netlink.SCOPE_UNIVERSE
		r.SetFlag(netlink.FLAG_ONLINK)
	}
	if src.IsValid() {
		r.Src = src.AsSlice()
	}
	return r
}

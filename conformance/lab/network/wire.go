//go:build linux

package network

import (
	"errors"
	"fmt"
	"net/netip"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

var everywhere = netip.PrefixFrom(netip.IPv4Unspecified(), 0)

// NewNode reserves the first free slot, and links a new node to the namespace outside. A slot is
// free if no lab has it and no route of the machine leads into its range.
func NewNode(outside *Namespace) (*Namespace, Plan, error) {
	taken, err := outside.destinations()
	if err != nil {
		return nil, Plan{}, err
	}
	node, err := New()
	if err != nil {
		return nil, Plan{}, err
	}
	for slot := range Slots {
		plan := Plan{Slot: slot}
		if overlaps(taken, plan.All()) {
			continue
		}
		err := join(outside, node, plan)
		if errors.Is(err, unix.EEXIST) { // another lab took the slot just now
			continue
		}
		if err != nil {
			node.Close()
			return nil, Plan{}, fmt.Errorf("join the node to this machine: %w", err)
		}
		return node, plan, nil
	}
	node.Close()
	return nil, Plan{},
		fmt.Errorf("no range of 10.128.0.0/16 to 10.%d.0.0/16 is free on this machine: stop other labs (lab down)",
			127+Slots)
}

func (n *Namespace) destinations() ([]netip.Prefix, error) {
	routes, err := n.link.RouteListFiltered(netlink.FAMILY_V4, &netlink.Route{Table: unix.RT_TABLE_UNSPEC},
		netlink.RT_FILTER_TABLE)
	if err != nil {
		return nil, fmt.Errorf("list routes: %w", err)
	}
	var to []netip.Prefix
	for _, r := range routes {
		if r.Dst == nil {
			continue
		}
		addr, ok := netip.AddrFromSlice(r.Dst.IP.To4())
		bits, _ := r.Dst.Mask.Size()
		if ok && bits > 8 { // a route for all of 10.0.0.0/8 leads to a gateway, not to a local network
			to = append(to, netip.PrefixFrom(addr, bits))
		}
	}
	return to, nil
}

// Unlink removes a slot's interface and link. Without Unlink, both would stay until the last
// connection inside times out.
func (n *Namespace) Unlink(name string) error {
	l, err := n.link.LinkByName(name)
	if errors.As(err, &netlink.LinkNotFoundError{}) {
		return nil
	}
	if err == nil {
		err = n.link.LinkDel(l)
	}
	if err != nil {
		return fmt.Errorf("remove interface %s: %w", name, err)
	}
	return nil
}

func overlaps(list []netip.Prefix, p netip.Prefix) bool {
	for _, q := range list {
		if q.Overlaps(p) {
			return true
		}
	}
	return false
}

func join(outside, node *Namespace, plan Plan) error {
	if err := veth(outside, plan.Link(), node, "outside"); err != nil {
		return err
	}
	out, err := outside.up(plan.Link(), plan.Outside())
	if err != nil {
		return err
	}
	in, err := node.up("outside", plan.Node())
	if err != nil {
		return err
	}
	if err := outside.route(out, plan.All(), plan.Node(), plan.Outside()); err != nil {
		return err
	}
	if err := node.route(in, netip.PrefixFrom(plan.Outside(), 32), netip.Addr{}, plan.Node()); err != nil {
		return err
	}
	if err := node.route(in, everywhere, plan.Outside(), plan.Node()); err != nil {
		return err
	}
	// Answer packets to unassigned addresses with an ICMP error. Otherwise such a packet circles
	// between the node and outside until its TTL ends.
	return node.link.RouteAdd(&netlink.Route{Dst: ipNet(plan.All()), Type: unix.RTN_UNREACHABLE})
}

// JoinNodes connects two clusters of a lab: each reaches the other's pods and LoadBalancers.
func JoinNodes(a *Namespace, pa Plan, b *Namespace, pb Plan) error {
	na, nb := interfaceTo(pb), interfaceTo(pa)
	if err := veth(a, na, b, nb); err != nil {
		return err
	}
	for _, side := range []struct {
		n          *Namespace
		name       string
		mine, peer Plan
	}{{a, na, pa, pb}, {b, nb, pb, pa}} {
		l, err := side.n.up(side.name, side.mine.Node())
		if err != nil {
			return err
		}
		if err := side.n.route(l, netip.PrefixFrom(side.peer.Node(), 32), netip.Addr{}, side.mine.Node()); err != nil {
			return err
		}
		if err := side.n.route(l, side.peer.All(), side.peer.Node(), side.mine.Node()); err != nil {
			return err
		}
	}
	return nil
}

// NewPod creates the namespace of a pod with the given address on the node. Closing the namespace
// also removes the pod's link.
func NewPod(node *Namespace, plan Plan, addr netip.Addr) (*Namespace, error) {
	pod, err := New()
	if err != nil {
		return nil, err
	}
	if err := joinPod(node, plan, pod, addr); err != nil {
		pod.Close()
		return nil, fmt.Errorf("join pod %s to its node: %w", addr, err)
	}
	return pod, nil
}

func joinPod(node *Namespace, plan Plan, pod *Namespace, addr netip.Addr) error {
	ip := addr.As4()
	name := fmt.Sprintf("pod-%d-%d", ip[2], ip[3])
	if err := veth(node, name, pod, "eth0"); err != nil {
		return err
	}
	// Every link has the node's address, because kube-proxy replaces clients' addresses by it. Each
	// route names its link, so the equal addresses are unambiguous.
	in, err := node.up(name, plan.Node())
	if err != nil {
		return err
	}
	out, err := pod.up("eth0", addr)
	if err != nil {
		return err
	}
	if err := node.route(in, netip.PrefixFrom(addr, 32), netip.Addr{}, plan.Node()); err != nil {
		return err
	}
	if err := pod.route(out, netip.PrefixFrom(plan.Node(), 32), netip.Addr{}, addr); err != nil {
		return err
	}
	return pod.route(out, everywhere, plan.Node(), addr)
}

func veth(a *Namespace, nameA string, b *Namespace, nameB string) error {
	attrs := netlink.NewLinkAttrs()
	attrs.Name = nameA
	err := a.link.LinkAdd(&netlink.Veth{LinkAttrs: attrs, PeerName: nameB,
		PeerNamespace: netlink.NsFd(int(b.file.Fd()))})
	if err != nil {
		return fmt.Errorf("interface %s: %w", nameA, err)
	}
	return nil
}

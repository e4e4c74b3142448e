//go:build linux

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/penstock-project/penstock/conformance/lab"
	"github.com/penstock-project/penstock/conformance/lab/cluster"
	"github.com/penstock-project/penstock/conformance/lab/network"
)

func newLink() *cobra.Command {
	var dir string
	var l lab.Link
	cmd := &cobra.Command{
		Use:   "link EFFECT FROM TO",
		Short: "cut, reject, drop, delay or heal the packets between two clusters",
		Long: `Link replaces what happens to the packets between two clusters of a lab, of established connections too:

  cut      none arrives and no answer comes back: connections wait
  reject   none arrives; TCP is reset at once, everything else gets an ICMP error
  drop     a share of them does not arrive
  delay    they arrive later
  heal     they arrive again

A link has one effect in each direction, the newest one. Clients outside the clusters are not concerned.`,
		Example: `  lab link cut lab1 lab2
  lab link cut lab1 lab2 --one-way         packets from lab1 to lab2 only
  lab link reject lab1 lab2 --port 18443   TCP connections with this port at either end only
  lab link drop lab1 lab2 --share 30       30 percent
  lab link delay lab1 lab2 --by 200ms
  lab link heal lab1 lab2`,
		Args: cobra.ExactArgs(3),
		RunE: func(cmd *cobra.Command, args []string) error {
			s, err := load(dir)
			if err != nil {
				return err
			}
			if !s.alive() {
				return fmt.Errorf("the lab in %s has ended; see %s", s.Dir, s.log())
			}
			l.Effect, l.From, l.To = network.Effect(args[0]), args[1], args[2]
			return lab.SetLink(cmd.Context(), s.Dir, l)
		},
	}
	addDir(cmd, &dir)
	cmd.Flags().BoolVar(&l.OneWay, "one-way", false, "only the packets from FROM to TO")
	cmd.Flags().Uint16Var(&l.Port, "port", 0,
		"only TCP connections that have this port at either end (cut, reject, drop)")
	cmd.Flags().IntVar(&l.Share, "share", 0, "the share of packets that drop drops, in percent")
	cmd.Flags().DurationVar(&l.By, "by", 0, "how much later packets arrive with delay")
	return cmd
}

type links map[[2]string]*network.Direction

func newLinks(clusters []*cluster.Cluster) links {
	all := links{}
	for _, from := range clusters {
		for _, to := range clusters {
			if from != to {
				all[[2]string{from.Name, to.Name}] = network.NewDirection(network.End{Node: from.Node, Plan: from.Plan},
					network.End{Node: to.Node, Plan: to.Plan})
			}
		}
	}
	return all
}

func (ls links) serve(ctx context.Context, dir string) error {
	folder, err := os.Open(dir)
	if err != nil {
		return fmt.Errorf("links: %w", err)
	}
	defer func() { _ = folder.Close() }()
	l, err := net.Listen("unix", fmt.Sprintf("/proc/self/fd/%d/%s", folder.Fd(), lab.Controls))
	if err != nil {
		return fmt.Errorf("links: %w", err)
	}
	defer context.AfterFunc(ctx, func() { _ = l.Close() })()
	for {
		c, err := l.Accept()
		if err != nil {
			if ctx.Err() != nil {
				return nil
			}
			return fmt.Errorf("links: %w", err)
		}
		ls.take(c)
	}
}

func (ls links) take(c net.Conn) {
	defer func() { _ = c.Close() }()
	if err := c.SetDeadline(time.Now().Add(10 * time.Second)); err != nil {
		return
	}
	var l lab.Link
	err := json.NewDecoder(c).Decode(&l)
	if err == nil {
		err = ls.set(l)
	}
	text := ""
	if err != nil {
		text = err.Error()
	}
	_ = json.NewEncoder(c).Encode(text) // an error means that the client has gone
}

func (ls links) set(l lab.Link) error {
	ways := [][2]string{{l.From, l.To}}
	if !l.OneWay {
		ways = append(ways, [2]string{l.To, l.From})
	}
	for _, way := range ways {
		d := ls[way]
		if d == nil {
			return fmt.Errorf("no link from %q to %q: name two clusters of the lab, such as lab1 and lab2", way[0],
				way[1])
		}
		if err := d.Set(l.Fault); err != nil {
			return fmt.Errorf("%s: %w", strings.Join(way[:], " to "), err)
		}
	}
	return nil
}

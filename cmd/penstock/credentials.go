package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/penstock-project/penstock/discovery/filesystem"
	"github.com/penstock-project/penstock/discovery/statefile"
	"github.com/penstock-project/penstock/xds/authority"
)

// ownName is a DNS name in every control plane's certificate. Proxies verify this name, whatever
// host they connect to.
const ownName = "penstock"

func newCredentials() *cobra.Command {
	c := credentialFiles{}
	cmd := &cobra.Command{
		Use:   "credentials",
		Short: "Make a CA, and the certificates of control planes and Envoys outside of Kubernetes",
		Long: `Make a CA, a certificate for control planes and one for Envoys, for penstock serve and penstock up on
addresses that are not loopback. It prints the commands that use them. An Envoy with such a certificate may read every
Gateway. Run it again to replace the certificates before they expire: the CA is kept, and running processes read the
new files.

Copy ca.crt, penstock.crt and penstock.key to the machines of control planes, and ca.crt, envoy.crt and envoy.key to
the machines of Envoys. Keep ca.key away from both.`,
		Example: `  penstock credentials --dir ./credentials --host 192.0.2.1 --host 192.0.2.2`,
		Args:    cobra.NoArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return c.write(cmd.OutOrStdout()) },
	}
	f := cmd.Flags()
	f.StringVar(&c.dir, "dir", "", "folder for the files; made if it does not exist (required)")
	f.StringSliceVar(&c.hosts, "host", nil,
		"IP address or DNS name at which Envoys or peers reach a control plane; may be repeated (required)")
	f.DurationVar(&c.life, "life", 365*24*time.Hour,
		"how long the certificates are valid; the CA is valid for ten years")
	_ = cmd.MarkFlagRequired("dir")
	_ = cmd.MarkFlagRequired("host")
	cmd.AddCommand(newCredentialsRotate())
	return cmd
}

type credentialFiles struct {
	dir   string
	hosts []string
	life  time.Duration
}

const caLife = 10 * 365 * 24 * time.Hour

func (c *credentialFiles) write(out io.Writer) error {
	err := c.check()
	if err != nil {
		return err
	}
	if c.dir, err = filepath.Abs(c.dir); err != nil {
		return err
	}
	if err := os.MkdirAll(c.dir, 0o700); err != nil {
		return fmt.Errorf("--dir: %w", err)
	}
	now := time.Now()
	ca, err := c.authority(now)
	if err != nil {
		return err
	}
	for name, issue := range map[string]func() (authority.Pair, error){
		ownName: func() (authority.Pair, error) {
			return ca.Issue(now, c.life, true, append([]string{ownName}, c.hosts...)...)
		},
		"envoy": func() (authority.Pair, error) { return ca.Issue(now, c.life, false, "envoy") },
	} {
		p, err := issue()
		if err != nil {
			return fmt.Errorf("certificate of %s: %w", name, err)
		}
		if err := c.save(name, p); err != nil {
			return err
		}
	}
	c.explain(out)
	return nil
}

func (c *credentialFiles) check() error {
	for _, h := range c.hosts {
		if _, err := netip.ParseAddr(h); err != nil && len(validation.IsDNS1123Subdomain(strings.ToLower(h))) > 0 {
			return fmt.Errorf(
				"--host %q: write an IP address, such as 192.0.2.1, or a DNS name, such as penstock.example.com", h)
		}
	}
	return nil
}

func (c *credentialFiles) authority(now time.Time) (p authority.Pair, err error) {
	if p.Key, err = new(filesystem.Disk).Read(c.path("ca.key")); err == nil {
		p.Cert, err = new(filesystem.Disk).Read(c.path("ca.crt"))
		return p, err
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return p, err
	}
	if p, err = authority.NewPair(now, caLife); err != nil {
		return p, fmt.Errorf("CA: %w", err)
	}
	return p, c.save("ca", p)
}

// save replaces the key before its certificate. A process that reads in between reports a mismatch,
// and keeps its connections.
func (c *credentialFiles) save(name string, p authority.Pair) error {
	for _, f := range []struct {
		ext     string
		content []byte
	}{{".key", p.Key}, {".crt", p.Cert}} {
		if err := statefile.Replace(c.path(name+f.ext), f.content); err != nil {
			return err
		}
	}
	return nil
}

func (c *credentialFiles) path(name string) string { return filepath.Join(c.dir, name) }

func (c *credentialFiles) explain(out io.Writer) {
	fmt.Fprintf(out, "# On each control plane, here the first one:\npenstock serve -f ./config --xds %s --picker %s",
		at(c.hosts[0], "18000"), at(c.hosts[0], "9002"))
	var names []string
	for _, h := range c.hosts {
		if _, err := netip.ParseAddr(h); err != nil {
			names = append(names, h)
			h = "IP-OF-" + h
		}
		fmt.Fprintf(out, " --picker-address %s", at(h, "9002"))
	}
	fmt.Fprintf(out, " \\\n    --xds-cert %s --xds-key %s --xds-client-ca %s\n", c.path(ownName+".crt"),
		c.path(ownName+".key"), c.path("ca.crt"))
	for _, h := range names {
		fmt.Fprintf(out, "# Replace IP-OF-%s by its IP address: Envoys dial a picker by IP address only.\n", h)
	}
	if len(c.hosts) > 1 {
		fmt.Fprintf(out,
			"# and, because there are several:\n    --peers-listen %s --peers-ca %s --peers-cert %s --peers-key %s",
			at(c.hosts[0], "18001"), c.path("ca.crt"), c.path(ownName+".crt"), c.path(ownName+".key"))
		for _, h := range c.hosts {
			fmt.Fprintf(out, " --peers %s", at(h, "18001"))
		}
		fmt.Fprintln(out)
	}
	fmt.Fprint(out, "# For each Envoy:\npenstock bootstrap --gateway NAMESPACE/NAME")
	for _, h := range c.hosts {
		fmt.Fprintf(out, " --xds %s", at(h, "18000"))
	}
	fmt.Fprintf(out,
		" \\\n    --tls-server-name %s --tls-ca %s --tls-cert %s --tls-key %s --secrets ./secrets > envoy.yaml\n",
		ownName, c.path("ca.crt"), c.path("envoy.crt"), c.path("envoy.key"))
}

func at(host, port string) string { return net.JoinHostPort(host, port) }

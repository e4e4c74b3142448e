package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/util/validation"
	kyaml "sigs.k8s.io/yaml"

	"github.com/penstock-project/penstock/discovery/objectid"
	"github.com/penstock-project/penstock/manifests/v1alpha1"
	"github.com/penstock-project/penstock/multicluster/set"
)

func newClustersJoin() *cobra.Command {
	var t target
	var how joining
	cmd := &cobra.Command{
		Use:   "join FILE",
		Short: "Make another cluster a member of this cluster's ClusterSet",
		Long: `Make another cluster a member of this cluster's ClusterSet, or renew its address and CA certificates.
FILE is the output of "penstock clusters show" at the other cluster; "-" is the standard input. The command edits the
ClusterSet in the folder. It prints what the other cluster claims about itself, and then the entry with which the
other cluster joins this one.

A member exports here only what "allow" of its entry names. A new member may export the namespaces in FILE, whose
pools the other cluster exported when "clusters show" ran there. --allow-namespaces and --allow-pools allow others
instead. Without these flags, the "allow" of a present member stays as it is.

The new bundle of a present member may have CA certificates of its entry here, CA certificates that it has published
to the running Penstock, and CA certificates that a key of one of these has signed. Any other needs --replace: CA
certificates are public, so a known one beside it proves nothing.

With --http, of a Penstock on Kubernetes, nothing is written: the command prints the ClusterSet to apply.`,
		Example: `  penstock clusters show -f ./config | ssh east penstock clusters join -f ./config - > east.yaml
  penstock clusters join -f ./config east.yaml
  penstock clusters join -f ./config --allow-pools default/chat east.yaml

  # On Kubernetes
  kubectl port-forward -n penstock-system deploy/penstock 9091 &
  penstock clusters join --http 127.0.0.1:9091 east.yaml | kubectl apply --server-side -f -`,
		Args: takes(1, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			text, name, err := readJoin(cmd.InOrStdin(), args[0])
			if err != nil {
				return err
			}
			members, err := set.ReadMembers(name, text, time.Now())
			if err != nil {
				return err
			}
			how.given = cmd.Flags().Changed("allow-namespaces") || cmd.Flags().Changed("allow-pools")
			if err := how.check(); err != nil {
				return err
			}
			for i := range members {
				fmt.Fprintln(cmd.ErrOrStderr(), set.Claims(&members[i]))
			}
			if t.http != "" {
				return t.printJoined(cmd, members, how)
			}
			return t.join(cmd, members, how)
		},
	}
	t.flags(cmd)
	cmd.Flags().StringSliceVar(&how.namespaces, "allow-namespaces", nil,
		"namespaces whose pools are imported from the cluster, instead of the namespaces in FILE; comma-separated")
	cmd.Flags().StringSliceVar(&how.pools, "allow-pools", nil, "pools that are imported from the cluster, as "+
		"NAMESPACE/NAME, instead of the namespaces in FILE; comma-separated")
	cmd.Flags().BoolVar(&how.replace, "replace", false,
		"accept CA certificates that are not known to be the named member's: its authority is new")
	return cmd
}

type joining struct {
	replace           bool
	namespaces, pools []string
	given             bool
}

func (j *joining) check() error {
	for _, ns := range j.namespaces {
		if len(validation.IsDNS1123Label(ns)) > 0 {
			return fmt.Errorf("--allow-namespaces: %q is no namespace: write its name", ns)
		}
	}
	for _, p := range j.pools {
		if pool, ok := objectid.ParsePool(p); !ok || !pool.IsValid() {
			return fmt.Errorf("--allow-pools: %q is no pool: write NAMESPACE/NAME", p)
		}
	}
	return nil
}

func mayExport(m *v1alpha1.ClusterSetMember) string {
	var parts []string
	if len(m.Allow.Namespaces) > 0 {
		parts = append(parts, "namespaces "+strings.Join(m.Allow.Namespaces, ", "))
	}
	if len(m.Allow.Pools) > 0 {
		parts = append(parts, "pools "+strings.Join(m.Allow.Pools, ", "))
	}
	if len(parts) == 0 {
		return m.Name +
			" may export nothing here: allow it with --allow-namespaces or --allow-pools, or in the ClusterSet"
	}
	return m.Name + " may export here: " + strings.Join(parts, "; ")
}

func readJoin(stdin io.Reader, path string) (text []byte, name string, err error) {
	from, name := stdin, "the standard input"
	if path != "-" {
		f, err := os.Open(path)
		if err != nil {
			return nil, path, err
		}
		defer func() { _ = f.Close() }()
		from, name = f, path
	}
	text, err = io.ReadAll(io.LimitReader(from, 2<<20))
	return text, name, err
}

func (t *target) join(cmd *cobra.Command, members []v1alpha1.ClusterSetMember, how joining) error {
	d, err := t.openClusterSet()
	if err != nil {
		return err
	}
	text, err := t.ownMember()
	if err != nil {
		return err
	}
	status, _ := t.clusterStatus(cmd.Context()) // an error means that no penstock runs here
	status.Member = text
	done, may, err := joinAll(&d.set, members, &status, how)
	if err != nil {
		return fmt.Errorf("%s:%d: %w", d.Path, d.Line, err)
	}
	if err := d.setMembers(); err != nil {
		return err
	}
	if err := d.Save(); err != nil {
		return err
	}
	for _, line := range done {
		fmt.Fprintf(cmd.ErrOrStderr(), "%s of ClusterSet %s (%s)\n", line, d.Name, d.Path)
	}
	fmt.Fprintln(cmd.ErrOrStderr(), strings.Join(may, "\n"))
	if text == "" {
		fmt.Fprintln(cmd.ErrOrStderr(), "The entry with which it joins this cluster exists once penstock up or serve "+
			"runs with --members-listen: see penstock clusters show")
		return nil
	}
	fmt.Fprintln(cmd.ErrOrStderr(), "There, join this cluster with the following entry, unless that is done:")
	_, err = fmt.Fprint(cmd.OutOrStdout(), text)
	return err
}

func (t *target) printJoined(cmd *cobra.Command, members []v1alpha1.ClusterSetMember, how joining) error {
	status, err := t.clusterStatus(cmd.Context())
	if err != nil {
		return err
	}
	clusterSet, err := runningAt(t.http).clusterSet(cmd.Context())
	if err != nil {
		return err
	}
	done, may, err := joinAll(clusterSet, members, &status, how)
	if err != nil {
		return err
	}
	manifest := map[string]any{
		"apiVersion": v1alpha1.Group + "/" + v1alpha1.Version, "kind": "ClusterSet",
		"metadata": map[string]any{"name": clusterSet.Name}, "spec": clusterSet.Spec,
	}
	raw, err := kyaml.Marshal(manifest)
	if err != nil {
		return err
	}
	for _, line := range done {
		fmt.Fprintf(cmd.ErrOrStderr(),
			"%s of ClusterSet %s, once the following is applied (kubectl apply --server-side -f -)\n", line,
			clusterSet.Name)
	}
	fmt.Fprintln(cmd.ErrOrStderr(), strings.Join(may, "\n"))
	_, err = cmd.OutOrStdout().Write(raw)
	return err
}

func (r running) clusterSet(ctx context.Context) (*v1alpha1.ClusterSet, error) {
	var page struct {
		Objects []json.RawMessage `json:"objects"`
	}
	if err := r.get(ctx, "/debug/store/ClusterSet", &page); err != nil {
		return nil, err
	}
	if len(page.Objects) == 0 {
		return nil, errors.New("there is no ClusterSet: apply one, with the name of this cluster in spec.cluster, or " +
			"in a ClusterProperty cluster.clusterset.k8s.io")
	}
	clusterSet := new(v1alpha1.ClusterSet)
	for i, raw := range page.Objects {
		var one v1alpha1.ClusterSet
		if err := json.Unmarshal(raw, &one); err != nil {
			return nil, fmt.Errorf("the ClusterSet of the process: %w", err)
		}
		if i == 0 || one.CreationTimestamp.Before(&clusterSet.CreationTimestamp) { // the oldest ClusterSet is in effect
			clusterSet = &one
		}
	}
	return clusterSet, nil
}

func ownAsMember(text string) (*v1alpha1.ClusterSetMember, error) {
	if text == "" {
		return nil, nil
	}
	var list []v1alpha1.ClusterSetMember
	if err := kyaml.Unmarshal([]byte(text), &list); err != nil || len(list) != 1 {
		const damaged = "this cluster's entry for other clusters is damaged: restart penstock, which writes it again"
		return nil, errors.Join(errors.New(damaged), err)
	}
	return &list[0], nil
}

// published returns the CAs that a member has published; "" if the member's bundle in the
// ClusterSet has changed since.
func published(status *set.Status, clusterSet *v1alpha1.ClusterSet, member string) string {
	at := slices.IndexFunc(clusterSet.Spec.Members, func(m v1alpha1.ClusterSetMember) bool { return m.Name == member })
	i := slices.IndexFunc(status.Members, func(m set.MemberStatus) bool { return m.Name == member })
	if i < 0 || at < 0 || clusterSet.Spec.Members[at].Peer == nil {
		return ""
	}
	if status.Members[i].PublishedUnder != set.Fingerprint(clusterSet.Spec.Members[at].Peer.Bundle) {
		return ""
	}
	return status.Members[i].Published
}

func joinAll(
	clusterSet *v1alpha1.ClusterSet, members []v1alpha1.ClusterSetMember, known *set.Status, how joining,
) (done, may []string, err error) {
	self, err := ownAsMember(known.Member)
	if err != nil {
		return nil, nil, err
	}
	for _, m := range members {
		if how.given {
			m.Allow.Namespaces, m.Allow.Pools = how.namespaces, how.pools
		}
		what, err := set.Join(clusterSet, m, self, published(known, clusterSet, m.Name), how.replace)
		switch {
		case err != nil:
			return nil, nil, err
		case what == "":
			done = append(done, m.Name+" is, as before, a member")
		case what == "added":
			done = append(done, m.Name+" is a member now")
		default:
			done = append(done, m.Name+" has a new address or new certificates, and is a member")
		}
		named := func(o v1alpha1.ClusterSetMember) bool { return o.Name == m.Name }
		member := &clusterSet.Spec.Members[slices.IndexFunc(clusterSet.Spec.Members, named)]
		if how.given {
			member.Allow.Namespaces, member.Allow.Pools = how.namespaces, how.pools
		}
		may = append(may, mayExport(member))
	}
	return done, may, nil
}

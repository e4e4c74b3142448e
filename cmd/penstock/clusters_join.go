package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"
	kyaml "sigs.k8s.io/yaml"

	"github.com/penstock-project/penstock/cmd/penstock/internal/clusterset"
	"github.com/penstock-project/penstock/manifests/v1alpha1"
)

func newClustersJoin() *cobra.Command {
	var t target
	var replace bool
	cmd := &cobra.Command{
		Use:   "join FILE",
		Short: "Make another cluster a member, by what clusters show prints there",
		Long: `Make another cluster a member of this cluster's ClusterSet, or renew its address and CA certificates: FILE has what
"penstock clusters show" prints at the other cluster; "-" is the standard input. The command edits the ClusterSet in the folder, and prints what
the other cluster joins this one with. What the ClusterSet allows the member stays as it is.

With --http, of a Penstock on Kubernetes, nothing is written: the command prints the ClusterSet to apply.`,
		Example: `  penstock clusters show -f ./config | ssh east penstock clusters join -f ./config - > east.yaml
  penstock clusters join -f ./config east.yaml

  # On Kubernetes
  kubectl port-forward -n penstock-system deploy/penstock 9091 &
  penstock clusters join --http 127.0.0.1:9091 east.yaml | kubectl apply --server-side -f -`,
		Args: takes(1, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			text, name, err := readJoin(cmd.InOrStdin(), args[0])
			if err != nil {
				return err
			}
			members, err := clusterset.ReadMembers(name, text, time.Now())
			if err != nil {
				return err
			}
			if t.http != "" {
				return t.printJoined(cmd, members, replace)
			}
			return t.join(cmd, members, replace)
		},
	}
	t.flags(cmd)
	cmd.Flags().BoolVar(&replace, "replace", false, "let the cluster take the name of a member that has other certificates: it was made anew")
	return cmd
}

// readJoin reads FILE, up to more than a list of members may have.
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

// join edits the ClusterSet of the folder.
func (t *target) join(cmd *cobra.Command, members []v1alpha1.ClusterSetMember, replace bool) error {
	d, err := t.openClusterSet()
	if err != nil {
		return err
	}
	text, err := t.ownMember()
	if err != nil {
		return err
	}
	done, err := joinAll(&d.set, members, text, replace)
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
	if text == "" {
		fmt.Fprintln(cmd.ErrOrStderr(), "What it joins this cluster with is there once penstock up or serve runs with --members-listen: see penstock clusters show")
		return nil
	}
	fmt.Fprintln(cmd.ErrOrStderr(), "There, join this cluster with what follows, unless that is done:")
	_, err = fmt.Fprint(cmd.OutOrStdout(), text)
	return err
}

// printJoined prints the ClusterSet of a process, with the members.
func (t *target) printJoined(cmd *cobra.Command, members []v1alpha1.ClusterSetMember, replace bool) error {
	is, err := t.clusterStatus(cmd.Context())
	if err != nil {
		return err
	}
	set, err := runningAt(t.http).clusterSet(cmd.Context())
	if err != nil {
		return err
	}
	done, err := joinAll(set, members, is.Member, replace)
	if err != nil {
		return err
	}
	manifest := map[string]any{
		"apiVersion": v1alpha1.Group + "/" + v1alpha1.Version, "kind": "ClusterSet", "metadata": map[string]any{"name": set.Name}, "spec": set.Spec,
	}
	raw, err := kyaml.Marshal(manifest)
	if err != nil {
		return err
	}
	for _, line := range done {
		fmt.Fprintf(cmd.ErrOrStderr(), "%s of ClusterSet %s, once what follows is applied (kubectl apply --server-side -f -)\n", line, set.Name)
	}
	_, err = cmd.OutOrStdout().Write(raw)
	return err
}

// clusterSet is the ClusterSet that a process has.
func (r running) clusterSet(ctx context.Context) (*v1alpha1.ClusterSet, error) {
	var page struct {
		Objects []json.RawMessage `json:"objects"`
	}
	if err := r.get(ctx, "/debug/store/ClusterSet", &page); err != nil {
		return nil, err
	}
	if len(page.Objects) == 0 {
		return nil, errors.New("there is no ClusterSet: apply one, with the name of this cluster in spec.cluster, or in a ClusterProperty cluster.clusterset.k8s.io")
	}
	set := new(v1alpha1.ClusterSet)
	for i, raw := range page.Objects {
		var one v1alpha1.ClusterSet
		if err := json.Unmarshal(raw, &one); err != nil {
			return nil, fmt.Errorf("the ClusterSet of the process: %w", err)
		}
		if i == 0 || one.CreationTimestamp.Before(&set.CreationTimestamp) { // as the process decides
			set = &one
		}
	}
	return set, nil
}

// joinAll adds or renews members. own is this cluster as a member, as text. It returns a line for each.
func joinAll(set *v1alpha1.ClusterSet, members []v1alpha1.ClusterSetMember, own string, replace bool) (done []string, err error) {
	var self *v1alpha1.ClusterSetMember
	var list []v1alpha1.ClusterSetMember
	if kyaml.Unmarshal([]byte(own), &list) == nil && len(list) == 1 {
		self = &list[0]
	}
	for _, m := range members {
		what, err := clusterset.Join(set, m, self, replace)
		switch {
		case err != nil:
			return nil, err
		case what == "":
			done = append(done, m.Name+" is, as before, a member")
		case what == "added":
			done = append(done, m.Name+" is a member now")
		default:
			done = append(done, m.Name+" has a new address or new certificates, and is a member")
		}
	}
	return done, nil
}

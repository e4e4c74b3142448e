package main

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/penstock-project/penstock/discovery/objectid"
	"github.com/penstock-project/penstock/discovery/store"
	"github.com/penstock-project/penstock/manifests/v1alpha1"
	"github.com/penstock-project/penstock/picker/authz"
	"github.com/penstock-project/penstock/picker/usage"
)

func newKeys() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "keys",
		Short: "Create, import, list, rotate and revoke the API keys of clients",
		Long: `Create, import, list, rotate and revoke API keys, in a folder or in a Kubernetes cluster. An AccessPolicy decides
which routes need one. Only hashes of keys are stored: a key is printed once. A change is in force within a watch event.`,
		Example: `  penstock keys create alice -f config
  penstock keys rotate alice -f config            # both keys count
  penstock keys rotate alice -f config --finish   # only the new one does
  penstock keys revoke alice -f config
  penstock keys list -f config`,
	}
	cmd.AddCommand(newKeysCreate(), newKeysImport(), newKeysList(), newKeysRotate(), newKeysRevoke())
	return cmd
}

type keyPlace interface {
	list(ctx context.Context) ([]storedKey, error)
	// create fails if a name is in use. Its text describes where the keys are.
	create(ctx context.Context, keys ...*v1alpha1.APIKey) (string, error)
	change(ctx context.Context, namespace, name string, change func(*v1alpha1.APIKeySpec) error) error
}

// storedKey is an APIKey. If problem is not nil, it cannot be decoded, and has only a namespace, a
// name, and maybe hashes.
type storedKey struct {
	v1alpha1.APIKey
	problem error
}

func warnOfBroken(w io.Writer, all []storedKey) {
	for i := range all {
		switch o := &all[i]; {
		case o.problem != nil:
			fmt.Fprintln(w, "warning:", o.problem)
		case !slices.ContainsFunc(o.Spec.Hashes, counts):
			fmt.Fprintf(w, "warning: APIKey %s/%s spec.hashes: none counts: penstock keys rotate writes one\n",
				o.Namespace, o.Name)
		}
	}
}

type keyFlags struct {
	paths                 []string
	kubeconfig, namespace string
}

func (k *keyFlags) flags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringArrayVarP(&k.paths, "file", "f", nil,
		"folder (read recursively) or file with YAML or JSON; may be repeated (required without a kubeconfig)")
	f.StringVar(&k.kubeconfig, "kubeconfig", "", "kubeconfig file of the cluster with the keys, "+
		"instead of a folder (default: $KUBECONFIG, else ~/.kube/config, if no -f is given)")
	f.StringVarP(&k.namespace, "namespace", "n", "",
		"namespace of the key (default: the kubeconfig's, or default in a folder)")
	exclusive(cmd, "file", "kubeconfig")
}

func (k *keyFlags) place() (keyPlace, error) {
	switch {
	case len(k.paths) > 0:
		k.namespace = cmp.Or(k.namespace, metav1.NamespaceDefault)
		return keyFolder{k.paths}, nil
	case k.kubeconfig == "":
		if k.kubeconfig = new(cluster).file(); k.kubeconfig == "" {
			return nil, errors.New("no keys are named: add -f FOLDER, or --kubeconfig FILE of a cluster")
		}
	}
	return openKeyCluster(k)
}

func newKeysCreate() *cobra.Command {
	var (
		k       keyFlags
		owner   string
		labels  map[string]string
		models  []string
		expires time.Duration
	)
	cmd := &cobra.Command{
		Use:   "create NAME",
		Short: "Create an API key, and print it once",
		Long: `Create an APIKey with the hash of a new key, and print the key. It is stored nowhere: give it to the client now.
The folder gets a file apikey-NAME.yaml.`,
		Example: `  penstock keys create alice -f config
  penstock keys create bob --model qwen --model 'llama-*' -f config
  penstock keys create batch --owner alice --label team=research --expires 720h -f config`,
		Args: takes(1, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			place, err := k.place()
			if err != nil {
				return err
			}
			if problems := validation.IsDNS1123Subdomain(args[0]); len(problems) > 0 {
				return fmt.Errorf("%q is not a name: %s", args[0], strings.Join(problems, "; "))
			}
			if expires < 0 {
				return fmt.Errorf("--expires %s: write a duration from now, such as 720h", expires)
			}
			key, err := authz.NewKey(rand.Reader)
			if err != nil {
				return err
			}
			object := newAPIKey(k.namespace, args[0], labels, authz.HashOf(key),
				v1alpha1.APIKeySpec{Owner: owner, Models: models})
			if expires > 0 {
				end := metav1.NewTime(time.Now().Add(expires).UTC().Truncate(time.Second))
				object.Spec.Expires = &end
			}
			where, err := place.create(cmd.Context(), object)
			if err != nil {
				return err
			}
			handOver(cmd, key, fmt.Sprintf("APIKey %s/%s is in %s.", object.Namespace, object.Name, where))
			return nil
		},
	}
	k.flags(cmd)
	cmd.ValidArgsFunction = cobra.NoFileCompletions
	f := cmd.Flags()
	f.StringVar(&owner, "owner", "", "whose requests the key's are, in logs and queues (default: the key's name)")
	f.StringToStringVar(&labels, "label", nil, "label, by which AccessPolicies select the key; may be repeated "+
		"(default: none)")
	f.StringArrayVar(&models, "model", nil, "model that the key may use, or a prefix with *; may be repeated "+
		"(default: all models; AccessPolicies need byModel: true)")
	f.DurationVar(&expires, "expires", 0, "how long the key is valid, such as 720h (default: without end)")
	return cmd
}

func newAPIKey(namespace, name string, labels map[string]string, hash authz.Hash,
	spec v1alpha1.APIKeySpec) *v1alpha1.APIKey {
	spec.Hashes = []string{hash.String()}
	return &v1alpha1.APIKey{
		TypeMeta:   metav1.TypeMeta{APIVersion: v1alpha1.Group + "/" + v1alpha1.Version, Kind: store.APIKeys.Kind()},
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: labels},
		Spec:       spec,
	}
}

// handOver prints only the key on standard output, and the remark on standard error.
func handOver(cmd *cobra.Command, key, remark string) {
	fmt.Fprintln(cmd.ErrOrStderr(), remark, "Its hash alone is stored: the key is printed once.")
	fmt.Fprintln(cmd.OutOrStdout(), key)
}

func newKeysRotate() *cobra.Command {
	var k keyFlags
	var finish bool
	cmd := &cobra.Command{
		Use:   "rotate NAME",
		Short: "Print a second key for an APIKey, and later end the first",
		Long: `Print a new key for an APIKey. It and the newest one before it count until the command runs with --finish, which
leaves the new one alone.`,
		Example: `  penstock keys rotate alice -f config
  penstock keys rotate alice -f config --finish`,
		Args: takes(1, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			place, err := k.place()
			if err != nil {
				return err
			}
			if finish {
				err := place.change(cmd.Context(), k.namespace, args[0], func(spec *v1alpha1.APIKeySpec) error {
					spec.Hashes = spec.Hashes[:min(1, len(spec.Hashes))]
					return nil
				})
				if err == nil {
					fmt.Fprintf(cmd.ErrOrStderr(), "APIKey %s/%s has its newest key alone.\n", k.namespace, args[0])
				}
				return err
			}
			key, err := authz.NewKey(rand.Reader)
			if err != nil {
				return err
			}
			err = place.change(cmd.Context(), k.namespace, args[0], func(spec *v1alpha1.APIKeySpec) error {
				if spec.Disabled {
					return fmt.Errorf("APIKey %s/%s is disabled, so a new key would be denied: remove spec.disabled "+
						"first", k.namespace, args[0])
				}
				if len(spec.Hashes) > 1 {
					return fmt.Errorf("APIKey %s/%s has two keys, and a third would end the older one: run penstock "+
						"keys rotate %s --finish first", k.namespace, args[0], args[0])
				}
				spec.Hashes = append([]string{authz.HashOf(key).String()}, spec.Hashes...)
				return nil
			})
			if err == nil {
				handOver(cmd, key, fmt.Sprintf("APIKey %s/%s has two keys until --finish.", k.namespace, args[0]))
			}
			return err
		},
	}
	k.flags(cmd)
	cmd.ValidArgsFunction = suggest(k.names)
	cmd.Flags().BoolVar(&finish, "finish", false, "end the older of two keys")
	return cmd
}

func newKeysRevoke() *cobra.Command {
	var k keyFlags
	cmd := &cobra.Command{
		Use:   "revoke NAME",
		Short: "Disable an API key",
		Long: `Set spec.disabled of an APIKey: requests with its keys are answered with 401. Requests in flight go on to their
end. Delete the object once no audit needs it.`,
		Example: `  penstock keys revoke alice -f config`,
		Args:    takes(1, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			place, err := k.place()
			if err != nil {
				return err
			}
			err = place.change(cmd.Context(), k.namespace, args[0], func(spec *v1alpha1.APIKeySpec) error {
				spec.Disabled = true
				return nil
			})
			if err == nil {
				fmt.Fprintf(cmd.ErrOrStderr(), "APIKey %s/%s is disabled.\n", k.namespace, args[0])
			}
			return err
		},
	}
	k.flags(cmd)
	cmd.ValidArgsFunction = suggest(k.names)
	return cmd
}

func newKeysList() *cobra.Command {
	var k keyFlags
	var running target
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List API keys: their owners, their models, whether they are valid, and their use",
		Long: `List API keys: their owners, their models, and whether they are valid. An APIKey that cannot be decoded, or
has no hash that counts, is invalid; a warning has the reason.

TOKENS and LAST-USED are of the owner, not of one key: the tokens of the last 30 days, and the hour of the last
request, as penstock usage has them. They are unknown (-) if no penstock has run with these files or in this cluster.`,
		Example: `  penstock keys list -f config
  penstock keys list --kubeconfig ~/.kube/config`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			only := k.namespace
			place, err := k.place()
			if err != nil {
				return err
			}
			all, err := place.list(cmd.Context())
			if err != nil {
				return err
			}
			if only != "" {
				all = slices.DeleteFunc(all, func(o storedKey) bool { return o.Namespace != only })
			}
			warnOfBroken(cmd.ErrOrStderr(), all)
			running.paths, running.cluster.kubeconfig = k.paths, k.kubeconfig
			return printKeys(cmd.OutOrStdout(), all, ownersUse(cmd, &running), time.Now())
		},
	}
	k.flags(cmd)
	f := cmd.Flags()
	f.StringVar(&running.state, "state", "", "state folder of the penstock that runs with -f (default: as its own)")
	f.StringVar(&running.cluster.namespace, "penstock-namespace", installedIn, "namespace of penstock's pods")
	exclusive(cmd, "kubeconfig", "state")
	return cmd
}

// keptUse is the period over which keys list sums tokens.
const keptUse = 30 * 24 * time.Hour

type use struct{ tokens, hour int64 }

// ownersUse returns the tokens and the last use of each NAMESPACE/OWNER; nil if no process answers.
func ownersUse(cmd *cobra.Command, running *target) map[string]use {
	answer, err := running.usage(cmd, usage.Query{By: []string{"owner", "hour"}, Since: keptUse})
	if err != nil {
		return nil
	}
	out := map[string]use{}
	for _, r := range answer.Rows {
		u := out[r.Owner]
		out[r.Owner] = use{u.tokens + r.Input + r.Output, max(u.hour, r.Hour)}
	}
	return out
}

// printKeys prints a table. uses is nil if the use is unknown.
func printKeys(out io.Writer, all []storedKey, uses map[string]use, now time.Time) error {
	slices.SortFunc(all, func(a, b storedKey) int {
		return cmp.Or(strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name))
	})
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "KEY\tOWNER\tSTATE\tKEYS\tMODELS\tEXPIRES\tTOKENS\tLAST-USED")
	for i := range all {
		o := &all[i]
		if o.problem != nil {
			fmt.Fprintf(w, "%s/%s\t-\tinvalid\t-\t-\t-\t-\t-\n", o.Namespace, o.Name)
			continue
		}
		state, expires := "valid", "never"
		if !slices.ContainsFunc(o.Spec.Hashes, counts) {
			state = "invalid"
		}
		if e := o.Spec.Expires; e != nil {
			if expires = e.UTC().Format(time.RFC3339); !now.Before(e.Time) {
				state = "expired"
			}
		}
		if o.Spec.Disabled {
			state = "disabled"
		}
		owner, tokens, last := cmp.Or(o.Spec.Owner, o.Name), "-", "-"
		if uses != nil {
			u := uses[objectid.Join(o.Namespace, owner)]
			tokens = strconv.FormatInt(u.tokens, 10)
			if last = "never"; u.hour > 0 {
				last = time.Unix(u.hour, 0).UTC().Format("2006-01-02T15Z")
			}
		}
		fmt.Fprintf(w, "%s/%s\t%s\t%s\t%d\t%s\t%s\t%s\t%s\n", o.Namespace, o.Name, owner, state,
			len(o.Spec.Hashes), modelsOf(o.Spec.Models), expires, tokens, last)
	}
	return w.Flush()
}

// counts reports whether Gateways accept a hash: it is valid, and its key is not known to be weak.
func counts(hash string) bool {
	h, err := authz.ParseHash(hash)
	return err == nil && !authz.Weak(h)
}

func modelsOf(models []string) string {
	const most = 4
	switch {
	case models == nil:
		return "all"
	case len(models) == 0:
		return "none"
	case len(models) > most:
		return fmt.Sprintf("%s and %d more", strings.Join(models[:most], ","), len(models)-most)
	}
	return strings.Join(models, ",")
}

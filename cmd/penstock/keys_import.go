package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/penstock-project/penstock/discovery/filesystem"
	"github.com/penstock-project/penstock/discovery/objectid"
	"github.com/penstock-project/penstock/manifests/v1alpha1"
	"github.com/penstock-project/penstock/picker/authz"
)

func newKeysImport() *cobra.Command {
	var (
		k      keyFlags
		labels map[string]string
	)
	cmd := &cobra.Command{
		Use:   "import FILE",
		Short: "Import keys that clients already have",
		Long: `Write an APIKey for each key in FILE, or on standard input if FILE is "-". FILE has one of three forms: lines
"OWNER KEY"; a Secret in JSON (kubectl get secret NAME -o json), whose entries are keys by owner; or LiteLLM's list of
keys (GET /key/list?return_full_object=true), which has hashes. Only hashes are written: delete FILE afterwards. If FILE
has a mistake, nothing is written. Keys that an APIKey of the namespace already has are skipped.`,
		Example: `  penstock keys import keys.txt -f config
  kubectl get secret clients -o json | penstock keys import - --label team=research -f config`,
		Args: takes(1, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			place, err := k.place()
			if err != nil {
				return err
			}
			text, name, err := readKeys(cmd.InOrStdin(), args[0])
			if err != nil {
				return err
			}
			found, err := parseKeys(text)
			if err != nil {
				return fmt.Errorf("%s: nothing is imported: %w", name, err)
			}
			return importKeys(cmd, place, found, k.namespace, labels)
		},
	}
	k.flags(cmd)
	cmd.Flags().StringToStringVar(&labels, "label", nil, "label of the APIKeys, by which AccessPolicies select them; "+
		"may be repeated (default: none)")
	return cmd
}

// maxKeys bounds the standard input of penstock keys import, in bytes.
const maxKeys = 64 << 20

func readKeys(stdin io.Reader, path string) (text []byte, name string, err error) {
	if path != "-" {
		text, err = new(filesystem.Disk).Read(path)
		return text, path, err
	}
	text, err = io.ReadAll(io.LimitReader(stdin, maxKeys+1))
	if err == nil && len(text) > maxKeys {
		err = fmt.Errorf("the standard input has more than %d bytes: split it", maxKeys)
	}
	return text, "the standard input", err
}

func importKeys(cmd *cobra.Command, place keyPlace, found []foundKey, namespace string,
	labels map[string]string) error {
	all, err := place.list(cmd.Context())
	if err != nil {
		return err
	}
	all = slices.DeleteFunc(all, func(o storedKey) bool { return o.Namespace != namespace })
	warnOfBroken(cmd.ErrOrStderr(), all)
	has := map[string]bool{}
	for i := range all {
		for _, hash := range all[i].Spec.Hashes {
			has[hash] = true
		}
	}
	var objects []*v1alpha1.APIKey
	for i := range found {
		if key := &found[i]; !has[key.hash.String()] {
			o := newAPIKey(namespace, key.name(), labels, key.hash, key.spec)
			objects = append(objects, o)
			fmt.Fprintln(cmd.OutOrStdout(), objectid.Join(o.Namespace, o.Name))
			if key.note != "" {
				fmt.Fprintf(cmd.ErrOrStderr(), "APIKey %s: %s\n", objectid.Join(o.Namespace, o.Name), key.note)
			}
		}
	}
	where := ""
	if len(objects) > 0 {
		if where, err = place.create(cmd.Context(), objects...); err != nil {
			return err
		}
		where = ", in " + where
	}
	fmt.Fprintf(cmd.ErrOrStderr(), "New APIKeys: %d%s. Keys that were there already: %d.\n", len(objects), where,
		len(found)-len(objects))
	return nil
}

// foundKey is a key of a file. Its fields do not contain the key itself.
type foundKey struct {
	at    string
	alias string // the name begins with it; "" uses the owner
	hash  authz.Hash
	spec  v1alpha1.APIKeySpec // without hashes
	note  string              // a restriction that the import adds
}

// name returns a name that ends in a prefix of the key's hash, so a second import yields it again.
func (k *foundKey) name() string {
	name := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' {
			return r
		}
		return '-'
	}, strings.ToLower(cmp.Or(k.alias, k.spec.Owner)))
	name = strings.Trim(name[:min(len(name), 200)], "-")
	return cmp.Or(name, "key") + "-" + k.hash.String()[:8]
}

// parseKeys reads keys in all formats. Its error lists the first maxMistakes mistakes.
func parseKeys(text []byte) (found []foundKey, err error) {
	var mistakes []error
	switch trimmed := bytes.TrimSpace(text); {
	case len(trimmed) == 0:
		return nil, errors.New("it has no keys")
	case trimmed[0] == '{' || trimmed[0] == '[':
		found, mistakes = keysInJSON(trimmed)
	default:
		found, mistakes = keysInLines(string(text))
	}
	first := map[authz.Hash]string{}
	for i := range found {
		key := &found[i]
		if at := first[key.hash]; at != "" {
			mistakes = append(mistakes, fmt.Errorf("%s: it is the same key as in %s: remove one of them", key.at, at))
		} else if authz.Weak(key.hash) {
			mistakes = append(mistakes, fmt.Errorf("%s: the key is empty, well known or a repetition, and would let "+
				"nothing in: make one with penstock keys create", key.at))
		}
		first[key.hash] = key.at
	}
	if n := len(mistakes); n > maxMistakes {
		mistakes = append(mistakes[:maxMistakes], fmt.Errorf("%d mistakes more", n-maxMistakes))
	}
	return found, errors.Join(mistakes...)
}

const maxMistakes = 20

func keysInLines(text string) (found []foundKey, mistakes []error) {
	number := 0
	for line := range strings.Lines(text) {
		number++
		fields := strings.Fields(line)
		if len(fields) == 0 || strings.HasPrefix(fields[0], "#") {
			continue
		}
		at := fmt.Sprintf("line %d", number)
		if len(fields) != 2 {
			mistakes = append(mistakes, fmt.Errorf("%s: write OWNER KEY, with one space between", at))
			continue
		}
		key, err := keyOf(at, fields[0], fields[1])
		if err != nil {
			mistakes = append(mistakes, err)
			continue
		}
		found = append(found, key)
	}
	return found, mistakes
}

// validOwner is the pattern of APIKeySpec.Owner.
var validOwner = regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9@._:-]*[A-Za-z0-9])?$`)

const maxOwner = 128

// keyOf makes a foundKey. Its errors quote neither column, because a user may have exchanged owner
// and key.
func keyOf(at, owner, text string) (foundKey, error) {
	if len(owner) > maxOwner || !validOwner.MatchString(owner) {
		return foundKey{}, fmt.Errorf("%s: the owner may have up to %d letters, digits and @._:-, and begins and ends "+
			"with a letter or digit", at, maxOwner)
	}
	if len(text) > authz.MaxCredential {
		return foundKey{}, fmt.Errorf("%s: the key has more than %d bytes, which no gate reads", at,
			authz.MaxCredential)
	}
	hash := authz.HashOf(text)
	if authz.Guessable(text) && !authz.Weak(hash) {
		return foundKey{}, fmt.Errorf("%s: the key is easily guessed, also from its hash: it has fewer than %d "+
			"characters besides repetitions and sequences: make one with penstock keys create", at, authz.MinUnexpected)
	}
	return foundKey{at: at, hash: hash, spec: v1alpha1.APIKeySpec{Owner: owner}}, nil
}

func keysInJSON(text []byte) (found []foundKey, mistakes []error) {
	var doc struct {
		Kind string            `json:"kind"`
		Data map[string][]byte `json:"data"`
		Keys []json.RawMessage `json:"keys"`
	}
	into := any(&doc)
	if text[0] == '[' {
		into = &doc.Keys
	}
	if err := json.Unmarshal(text, into); err != nil { // the error may quote a part of a key
		return nil, []error{errors.New("it is not valid JSON, or neither LiteLLM's list of keys nor a Secret")}
	}
	switch {
	case doc.Kind == "Secret":
		for _, owner := range slices.Sorted(maps.Keys(doc.Data)) {
			key, err := keyOf("data."+owner, owner, strings.TrimSpace(string(doc.Data[owner])))
			if err != nil {
				mistakes = append(mistakes, err)
				continue
			}
			found = append(found, key)
		}
	case doc.Keys == nil:
		mistakes = []error{errors.New("it is JSON, and neither LiteLLM's list of keys nor a Secret")}
	}
	for i, raw := range doc.Keys {
		key, err := liteLLMKey(raw)
		if key.at = fmt.Sprintf("keys[%d]", i); err != nil {
			mistakes = append(mistakes, fmt.Errorf("%s: %w", key.at, err))
			continue
		}
		found = append(found, key)
	}
	return found, mistakes
}

// validModel is the pattern of an element of APIKeySpec.Models.
var validModel = regexp.MustCompile(`^[^*]+\*?$|^\*$`)

const maxModels, maxModel = 64, 256

// liteLLMKey reads an entry of LiteLLM's list. A mere hash is an error, because the key may be
// blocked, expired or restricted.
func liteLLMKey(raw json.RawMessage) (key foundKey, err error) {
	var o struct {
		Token   string   `json:"token"`
		Alias   string   `json:"key_alias"`
		User    string   `json:"user_id"`
		Team    string   `json:"team_id"`
		Models  []string `json:"models"`
		Routes  []string `json:"allowed_routes"`
		Expires string   `json:"expires"`
		Blocked bool     `json:"blocked"`
	}
	if raw[0] == '"' {
		return key, errors.New("it has no models, expires and blocked: get the list with return_full_object=true")
	}
	if json.Unmarshal(raw, &o) != nil {
		return key, errors.New("it is no object of LiteLLM with token")
	}
	if key.hash, err = authz.ParseHash(o.Token); err != nil {
		return key, errors.New("token is not a SHA-256 hash in lower-case hexadecimal digits")
	}
	key.alias = cmp.Or(o.Alias, o.User)
	for _, owner := range []string{o.Alias, o.User} {
		if key.spec.Owner == "" && len(owner) <= maxOwner && validOwner.MatchString(owner) {
			key.spec.Owner = owner
		}
	}
	if o.Team != "" && len(o.Team) <= maxOwner {
		key.spec.Groups = []string{o.Team}
	}
	key.spec.Disabled = o.Blocked
	key.spec.Models, key.note = liteLLMModels(o.Models, o.Team != "")
	if len(o.Routes) > 0 && !slices.Contains(o.Routes, "llm_api_routes") {
		key.spec.Models = []string{}
		key.note = "it permits no model, because its allowed_routes in LiteLLM's list are not llm_api_routes: write " +
			"spec.models"
	}
	if o.Expires == "" {
		return key, nil
	}
	for _, layout := range []string{time.RFC3339, "2006-01-02T15:04:05", "2006-01-02 15:04:05Z07:00"} {
		if at, err := time.Parse(layout, o.Expires); err == nil { // Parse also accepts fractional seconds
			end := metav1.NewTime(at.UTC().Truncate(time.Second))
			key.spec.Expires = &end
			return key, nil
		}
	}
	return key, errors.New("expires is not a time such as 2026-01-31T12:00:00Z")
}

// liteLLMModels returns the models that a key permits; nil means all. The import must not permit
// more than LiteLLM did, so the result is empty if a model depends on a team, or has a name that
// APIKeys do not allow.
func liteLLMModels(list []string, ofTeam bool) (models []string, note string) {
	switch all := len(list) == 0 || slices.Contains(list, "all-proxy-models"); {
	case all && ofTeam:
		return []string{}, "it permits no model, because LiteLLM's list does not have the models of its team: write " +
			"spec.models"
	case all:
		return nil, ""
	}
	unknown := func(m string) bool {
		return m == "all-team-models" || m == "no-default-models" || len(m) > maxModel || !validModel.MatchString(m)
	}
	if len(list) > maxModels || slices.ContainsFunc(list, unknown) {
		return []string{}, "it permits no model, because its models in LiteLLM's list are no names: write spec.models"
	}
	slices.Sort(list)
	return slices.Compact(list), ""
}

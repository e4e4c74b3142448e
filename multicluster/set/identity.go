package set

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"time"

	"sigs.k8s.io/yaml"

	"github.com/penstock-project/penstock/discovery/statefile"
	"github.com/penstock-project/penstock/manifests/v1alpha1"
	"github.com/penstock-project/penstock/multicluster/federation"
	"github.com/penstock-project/penstock/xds/authority"
)

type identity struct {
	// UID distinguishes this cluster from an earlier cluster with the same name.
	UID string `json:"uid"`
	// Epoch counts the processes that have published for this cluster.
	Epoch uint64 `json:"epoch"`
}

// IdentityFile, AuthorityFile and MemberFile return paths below a state folder.
func IdentityFile(state string) string  { return filepath.Join(state, "cluster", "identity.json") }
func AuthorityFile(state string) string { return filepath.Join(state, "cluster", "authority.json") }
func MemberFile(state string) string    { return filepath.Join(state, "cluster", "member.yaml") }

func writeMember(f Files, name string, peer v1alpha1.ClusterSetPeer, namespaces []string) error {
	m := v1alpha1.ClusterSetMember{Name: name, Peer: &peer, Allow: v1alpha1.ClusterSetAllow{Namespaces: namespaces}}
	raw, err := yaml.Marshal([]v1alpha1.ClusterSetMember{m})
	if err != nil {
		return err
	}
	return statefile.ReplaceOn(f.Disk, MemberFile(f.State), raw)
}

// OwnMember returns the entry, in YAML, that other ClusterSets need for this cluster; "": it has
// not been written yet.
func OwnMember(state string) (string, error) {
	text, err := os.ReadFile(MemberFile(state))
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	return string(text), err
}

const (
	// overlap is how long the next CA is published before it signs. A member that is disconnected
	// for longer needs a new entry for this cluster in its ClusterSet.
	overlap = 60 * 24 * time.Hour
	// validity is the lifetime of the certificates for members, which are replaced daily.
	validity = 7 * 24 * time.Hour
)

func newAuthority(name string, secrets authority.Secrets, c authority.Config) *authority.Authority {
	c.Secrets, c.Names, c.Overlap, c.Validity = secrets, []string{"penstock"}, overlap, validity
	c.ID = &url.URL{Scheme: "spiffe", Host: name, Path: federation.ProcessPath}
	return authority.New(c)
}

// Files stores the identity, the CA and the records of a process without Kubernetes below the state
// folder State.
type Files struct {
	Disk  statefile.Disk
	State string
}

// OnDisk returns the Files on this machine's disk.
func OnDisk(state string) Files { return Files{statefile.Machine{}, state} }

// Identity implements Config.Identity: it reads the identity and begins a new epoch.
func (f Files) Identity(context.Context) (uid string, epoch uint64, err error) {
	path, id := IdentityFile(f.State), identity{}
	raw, err := statefile.Read(f.Disk, path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		id.UID = rand.Text()
	case err != nil:
		return "", 0, err
	default:
		if err := json.Unmarshal(raw, &id); err != nil || id.UID == "" {
			const damaged = "%s is damaged: restore it, or remove it and this cluster is a new one to its members"
			return "", 0, fmt.Errorf(damaged, path)
		}
	}
	id.Epoch++
	if raw, err = json.Marshal(id); err != nil {
		return "", 0, err
	}
	return id.UID, id.Epoch, statefile.ReplaceOn(f.Disk, path, raw)
}

// Authority returns Config.Authority.
func (f Files) Authority() authority.Secrets {
	return authority.File{
		Path:    AuthorityFile(f.State),
		ReadAll: func(path string) ([]byte, error) { return statefile.Read(f.Disk, path) },
		Replace: func(path string, raw []byte) error { return statefile.ReplaceOn(f.Disk, path, raw) },
	}
}

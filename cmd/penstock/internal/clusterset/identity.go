package clusterset

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/penstock-project/penstock/discovery/statefile"
	"github.com/penstock-project/penstock/xds/authority"
)

// identity is who this cluster is to others, for a process without Kubernetes.
type identity struct {
	// UID is another one in a cluster that has this one's name later.
	UID string `json:"uid"`
	// Epoch counts the processes that have published for this cluster.
	Epoch uint64 `json:"epoch"`
}

// IdentityFile has the identity below a state folder, AuthorityFile the certificate authority, and MemberFile what other clusters write
// into their ClusterSet about this one: nothing of it is secret.
func IdentityFile(state string) string  { return filepath.Join(state, "cluster", "identity.json") }
func AuthorityFile(state string) string { return filepath.Join(state, "cluster", "authority.json") }
func MemberFile(state string) string    { return filepath.Join(state, "cluster", "member.yaml") }

// FileIdentity is Config.Identity for a process without Kubernetes: in the state folder.
func FileIdentity(state string) func(context.Context) (string, uint64, error) {
	return func(context.Context) (string, uint64, error) {
		id, err := nextIdentity(IdentityFile(state))
		return id.UID, id.Epoch, err
	}
}

// FileAuthority is Config.Authority for a process without Kubernetes: in the state folder.
func FileAuthority(state string) authority.Secrets {
	return authority.File{Path: AuthorityFile(state), Replace: statefile.Replace}
}

// nextIdentity reads the identity and begins a new epoch.
func nextIdentity(path string) (id identity, err error) {
	raw, err := os.ReadFile(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		id.UID = rand.Text()
	case err != nil:
		return id, err
	default:
		if err := json.Unmarshal(raw, &id); err != nil || id.UID == "" {
			return id, fmt.Errorf("%s is damaged: restore it, or remove it and this cluster is a new one to its members", path)
		}
	}
	id.Epoch++
	if raw, err = json.Marshal(id); err != nil {
		return id, err
	}
	return id, statefile.Replace(path, raw)
}

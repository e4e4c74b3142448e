package hub

import (
	"fmt"
	"maps"
	"slices"

	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"

	"github.com/penstock-project/penstock/discovery/filesystem"
)

// Kubeconfig reads a kubeconfig. It also reads the files that it names, because a read that blocks
// must block here and not during requests. raw is nil if the kubeconfig cannot be read.
func Kubeconfig(disk *filesystem.Disk, path string) (raw []byte, config *api.Config, err error) {
	if raw, err = disk.Read(path); err != nil {
		return nil, nil, err
	}
	if config, err = clientcmd.Load(raw); err != nil {
		return raw, nil, fmt.Errorf("%s: %w", path, err)
	}
	for _, c := range config.Clusters {
		c.LocationOfOrigin = path
	}
	for _, u := range config.AuthInfos {
		u.LocationOfOrigin = path
	}
	if err := clientcmd.ResolveLocalPaths(config); err != nil {
		return raw, nil, fmt.Errorf("%s: %w", path, err)
	}
	check := func(at, field, file string) error {
		if file == "" {
			return nil
		}
		if _, err := disk.Read(file); err != nil {
			return fmt.Errorf("%s: %s of %s: %w", path, field, at, err)
		}
		return nil
	}
	for _, name := range slices.Sorted(maps.Keys(config.Clusters)) {
		if c := config.Clusters[name]; len(c.CertificateAuthorityData) == 0 {
			if err := check("cluster "+name, "certificate-authority", c.CertificateAuthority); err != nil {
				return raw, nil, err
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(config.AuthInfos)) {
		u := config.AuthInfos[name]
		files := map[string]string{"tokenFile": u.TokenFile}
		if len(u.ClientCertificateData) == 0 {
			files["client-certificate"] = u.ClientCertificate
		}
		if len(u.ClientKeyData) == 0 {
			files["client-key"] = u.ClientKey
		}
		for _, field := range slices.Sorted(maps.Keys(files)) {
			if err := check("user "+name, field, files[field]); err != nil {
				return raw, nil, err
			}
		}
	}
	return raw, config, nil
}

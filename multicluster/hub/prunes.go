package hub

import (
	"context"
	"encoding/json"
	"fmt"

	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"

	"github.com/penstock-project/penstock/discovery/store"
	"github.com/penstock-project/penstock/manifests/inferenceapi"
)

// installed determines whether a member's CRD of InferencePoolImport lacks status.clusters, as the
// upstream CRD does. Every client may read the API server's schema.
type installed struct {
	client *discovery.DiscoveryClient
	url    string // of the last fetched schema; it contains a hash of the content
	prunes bool
}

func newInstalled(config *rest.Config) (*installed, error) {
	client, err := discovery.NewDiscoveryClientForConfig(config)
	return &installed{client: client}, err
}

// read fetches the schema if its URL changed, and sets i.prunes; false while the kind is not
// installed.
func (i *installed) read(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 2*contactTimeout)
	defer cancel()
	get := func(url string, into any) error {
		raw, err := i.client.RESTClient().Get().RequestURI(url).Do(ctx).Raw()
		if err != nil {
			return fmt.Errorf("schema of InferencePoolImport: %w", err)
		}
		return json.Unmarshal(raw, into)
	}
	var index struct {
		Paths map[string]struct{ ServerRelativeURL string }
	}
	if err := get("/openapi/v3", &index); err != nil {
		return err
	}
	url := index.Paths["apis/"+inferenceapi.Group+"/v1alpha1"].ServerRelativeURL
	if url == i.url {
		return nil
	}
	prunes := false
	if url != "" {
		var schema struct {
			Components struct {
				Schemas map[string]struct {
					Kinds      []struct{ Kind string } `json:"x-kubernetes-group-version-kind"`
					Properties struct {
						Status struct{ Properties map[string]json.RawMessage }
					}
				}
			}
		}
		if err := get(url, &schema); err != nil {
			return err
		}
		for _, s := range schema.Components.Schemas {
			if len(s.Kinds) == 1 && s.Kinds[0].Kind == store.InferencePoolImports.Kind() {
				_, has := s.Properties.Status.Properties["clusters"]
				prunes = !has
			}
		}
	}
	i.url, i.prunes = url, prunes
	return nil
}

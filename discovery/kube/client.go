package kube

import (
	"context"
	"fmt"
	"net/http"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/penstock-project/penstock/discovery/store"
)

type client struct {
	config *rest.Config
	http   *http.Client
	codecs serializer.CodecFactory

	mu   sync.Mutex
	rest map[schema.GroupVersion]*rest.RESTClient
}

func newClient(cfg *rest.Config, kinds []*kind) (*client, error) {
	cfg = rest.CopyConfig(cfg)
	cfg.QPS = -1 // no rate limit, because callers combine writes
	httpClient, err := rest.HTTPClientFor(cfg)
	if err != nil {
		return nil, fmt.Errorf("kubernetes client: %w", err)
	}
	scheme, added := runtime.NewScheme(), map[schema.GroupVersion]bool{}
	for _, k := range kinds {
		for _, v := range k.versions {
			gv := schema.GroupVersion{Group: k.table.Group(), Version: v}
			scheme.AddKnownTypeWithName(gv.WithKind(k.table.Kind()), k.table.New())
			scheme.AddKnownTypeWithName(gv.WithKind(k.table.Kind()+"List"), k.list())
			if !added[gv] { // a second call would register conversions twice
				metav1.AddToGroupVersion(scheme, gv)
				added[gv] = true
			}
		}
	}
	scheme.AddKnownTypeWithName(crdVersion.WithKind("CustomResourceDefinition"), &crd{})
	scheme.AddKnownTypeWithName(crdVersion.WithKind("CustomResourceDefinitionList"), &list[crd]{})
	metav1.AddToGroupVersion(scheme, crdVersion)
	return &client{config: cfg, http: httpClient, codecs: serializer.NewCodecFactory(scheme),
		rest: map[schema.GroupVersion]*rest.RESTClient{}}, nil
}

func (c *client) restFor(gv schema.GroupVersion, builtIn bool) (*rest.RESTClient, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if r := c.rest[gv]; r != nil {
		return r, nil
	}
	cfg := rest.CopyConfig(c.config)
	cfg.GroupVersion, cfg.APIPath = &gv, "/apis"
	if gv.Group == "" {
		cfg.APIPath = "/api"
	}
	cfg.NegotiatedSerializer = tolerant{c.codecs.WithoutConversion()}
	cfg.ContentType = runtime.ContentTypeJSON
	cfg.AcceptContentTypes = runtime.ContentTypeJSON
	if builtIn {
		cfg.AcceptContentTypes = runtime.ContentTypeProtobuf + "," + runtime.ContentTypeJSON
	}
	r, err := rest.RESTClientForConfigAndClient(cfg, c.http)
	if err != nil {
		return nil, fmt.Errorf("kubernetes client of %s: %w", gv, err)
	}
	c.rest[gv] = r
	return r, nil
}

type scope struct{ namespace, name string }

type contact interface {
	answered(error)
	watching(initial bool) // initial means that the watch delivers all objects first
	unwatched()
}

func listWatch(r *rest.RESTClient, resource string, s scope, c contact) cache.ListerWatcher {
	request := func(o metav1.ListOptions) *rest.Request {
		if s.name != "" {
			o.FieldSelector = "metadata.name=" + s.name
		}
		return r.Get().Namespace(s.namespace).Resource(resource).VersionedParams(&o, metav1.ParameterCodec)
	}
	return &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			out, err := request(o).Do(ctx).Get()
			if err != nil {
				c.answered(err)
			}
			return out, err
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			o.Watch = true
			w, err := request(o).Watch(ctx)
			c.answered(err)
			if err != nil {
				return nil, err
			}
			c.watching(o.SendInitialEvents != nil && *o.SendInitialEvents)
			return &observedWatch{Interface: w, contact: c}, nil
		},
	}
}

// observedWatch reports the end of a watch to its contact. It relies on the reflector to call Stop
// as soon as the watch has ended.
type observedWatch struct {
	watch.Interface
	contact contact
	once    sync.Once
}

func (w *observedWatch) Stop() {
	w.once.Do(w.contact.unwatched)
	w.Interface.Stop()
}

func (c *client) patch(ctx context.Context, k *kind, version, id, sub string, body []byte) (store.Object, error) {
	r, err := c.restFor(schema.GroupVersion{Group: k.table.Group(), Version: version}, k.builtIn)
	if err != nil {
		return nil, err
	}
	namespace, name := store.ParseID(id)
	obj := k.table.New()
	request := r.Patch(types.MergePatchType).Namespace(namespace).Resource(k.resource).Name(name)
	if sub != "" {
		request = request.SubResource(sub)
	}
	err = request.VersionedParams(&metav1.PatchOptions{FieldManager: fieldManager}, metav1.ParameterCodec).Body(body).
		Do(ctx).Into(obj)
	return obj, err
}

const fieldManager = "penstock-status"

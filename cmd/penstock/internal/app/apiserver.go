package app

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
)

// apiEndpoints reads at which further addresses the API server can be reached: at Service
// kubernetes and its endpoints. It reads at most once a minute, and keeps its last result if a read
// fails.
type apiEndpoints struct {
	rest *rest.Config
	now  func() time.Time

	mu   sync.Mutex
	read time.Time
	last []netip.AddrPort
}

const (
	apiEndpointsEvery = time.Minute
	maxAPIEndpoints   = 1 << 20 // bytes of one response
)

// Get returns the addresses, or none if this process may not read the objects.
func (a *apiEndpoints) Get(ctx context.Context) ([]netip.AddrPort, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.last != nil && a.now().Sub(a.read) < apiEndpointsEvery {
		return a.last, nil
	}
	found, err := a.list(ctx)
	switch {
	case err == nil:
		a.last, a.read = found, a.now()
	case a.last == nil:
		return nil, fmt.Errorf("endpoints of the API server: %w", err)
	}
	return a.last, nil
}

func (a *apiEndpoints) list(ctx context.Context) ([]netip.AddrPort, error) {
	var services corev1.ServiceList
	var slices discoveryv1.EndpointSliceList
	const in = "namespaces/default/"
	if err := a.get(ctx, "/api/v1/"+in+"services?"+url.Values{
		"fieldSelector": {"metadata.name=kubernetes"}}.Encode(), &services); err != nil {
		return nil, err
	}
	if err := a.get(ctx, "/apis/discovery.k8s.io/v1/"+in+"endpointslices?"+url.Values{
		"labelSelector": {discoveryv1.LabelServiceName + "=kubernetes"}}.Encode(), &slices); err != nil {
		return nil, err
	}
	out := []netip.AddrPort{} // not nil, because nil means that nothing was read
	add := func(address string, port int32) {
		if ip, err := netip.ParseAddr(address); err == nil {
			out = append(out, netip.AddrPortFrom(ip.Unmap(), uint16(port)))
		}
	}
	for _, s := range services.Items {
		for _, p := range s.Spec.Ports {
			for _, address := range append([]string{s.Spec.ClusterIP}, s.Spec.ClusterIPs...) {
				add(address, p.Port)
			}
		}
	}
	for _, s := range slices.Items {
		for _, p := range s.Ports {
			for _, e := range s.Endpoints {
				for _, address := range e.Addresses {
					if p.Port != nil {
						add(address, *p.Port)
					}
				}
			}
		}
	}
	return out, nil
}

func (a *apiEndpoints) get(ctx context.Context, path string, into any) error {
	client, err := rest.HTTPClientFor(a.rest)
	if err != nil {
		return err
	}
	base, _, err := rest.DefaultServerURL(a.rest.Host, "", schema.GroupVersion{}, rest.IsConfigTransportTLS(*a.rest))
	if err != nil {
		return err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.TrimSuffix(base.String(), "/")+path, nil)
	if err != nil {
		return err
	}
	request.Header.Set("Accept", "application/json")
	response, err := client.Do(request)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	switch response.StatusCode {
	case http.StatusOK:
		return json.NewDecoder(io.LimitReader(response.Body, maxAPIEndpoints)).Decode(into)
	case http.StatusForbidden, http.StatusNotFound:
		return nil
	}
	return fmt.Errorf("GET %s: status %d", path, response.StatusCode)
}

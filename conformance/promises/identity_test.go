//go:build lab && linux

package promises

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	extprocv3 "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/status"
	authenticationv1 "k8s.io/api/authentication/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/penstock-project/penstock/conformance/lab/labtest"
	"github.com/penstock-project/penstock/xds/resource"
	"github.com/penstock-project/penstock/xds/xdstest"
)

// processes waits until both pods of Penstock are ready. It returns the leader first.
func (p place) processes() (pods []corev1.Pod) {
	p.Helper()
	p.Until("two processes of Penstock, one of them the leader", func(ctx context.Context) (err error) {
		if pods, err = p.pods(ctx, system, "app.kubernetes.io/name=penstock"); err != nil {
			return err
		}
		if len(pods) != 2 || !labtest.Ready(pods[0].Status) || !labtest.Ready(pods[1].Status) {
			return fmt.Errorf("pods: got %s, want 2 that are ready", podNames(pods))
		}
		lease, err := p.lease(ctx)
		if err != nil {
			return err
		}
		leads := func(pod corev1.Pod) bool { return strings.HasPrefix(*lease.Spec.HolderIdentity, pod.Name) }
		if slices.SortStableFunc(pods, func(a, b corev1.Pod) int {
			if leads(a) {
				return -1
			}
			return 0
		}); !leads(pods[0]) {
			return fmt.Errorf("%s leads, want one of the two", *lease.Spec.HolderIdentity)
		}
		return nil
	})
	return pods
}

func (p place) lease(ctx context.Context) (*coordinationv1.Lease, error) {
	lease, err := p.CoordinationV1().Leases(system).Get(ctx, "penstock", metav1.GetOptions{})
	if err == nil && lease.Spec.HolderIdentity == nil {
		err = errors.New("the Lease has no holder")
	}
	return lease, err
}

func (p place) token(account, audience string) string {
	p.Helper()
	t, err := p.CoreV1().ServiceAccounts(p.Namespace).CreateToken(p.Context(), account,
		&authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{Audiences: []string{audience}}},
		metav1.CreateOptions{})
	if err != nil {
		p.Fatal(err)
	}
	return t.Status.Token
}

// authorities returns the CAs that proxies trust, in PEM, from Penstock's Secret.
func (p place) authorities() (all []byte) {
	p.Helper()
	s, err := p.CoreV1().Secrets(system).Get(p.Context(), "penstock-ca", metav1.GetOptions{})
	if err != nil {
		p.Fatal(err)
	}
	for _, key := range []string{"tls.crt", "next.crt", "previous.crt"} {
		all = append(all, s.Data[key]...)
	}
	return all
}

// as returns dial options: the client trusts Penstock's current CAs, and sends token; "" means no
// token.
func (p place) as(token string) []grpc.DialOption {
	p.Helper()
	return trusting(p.authorities(), token)
}

// trusting returns dial options: the client trusts the CAs in authorities (PEM), and sends token;
// "" means no token.
func trusting(authorities []byte, token string) []grpc.DialOption {
	out := []grpc.DialOption{grpc.WithTransportCredentials(transport(authorities, nil))}
	if token != "" {
		out = append(out, grpc.WithPerRPCCredentials(bearer(token)))
	}
	return out
}

// transport trusts the CAs in authorities (PEM), and presents the certificate of c; nil means none.
func transport(authorities []byte, c *client) credentials.TransportCredentials {
	config := &tls.Config{RootCAs: x509.NewCertPool(), ServerName: "penstock." + system + ".svc"}
	config.RootCAs.AppendCertsFromPEM(authorities)
	if c != nil {
		config.Certificates = []tls.Certificate{{Certificate: [][]byte{c.cert.Raw}, PrivateKey: c.key}}
	}
	return credentials.NewTLS(config)
}

type bearer string

func (b bearer) GetRequestMetadata(context.Context, ...string) (map[string]string, error) {
	return map[string]string{"authorization": "Bearer " + string(b)}, nil
}
func (bearer) RequireTransportSecurity() bool { return true }

// others is a second Gateway. Proxies of gw must not receive its route's backend.
const others = `
---
apiVersion: v1
kind: Service
metadata: {name: hidden}
spec: {selector: {app: chat}, ports: [{port: 80, targetPort: 8000}]}
---
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: hidden}
spec: {parentRefs: [{name: other}], rules: [{backendRefs: [{name: hidden, port: 80}]}]}
---
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {name: other}
spec:
  gatewayClassName: penstock
  infrastructure: {parametersRef: {group: penstock.dev, kind: EnvoyFleet, name: gw}}
  listeners: [{name: http, port: 80, protocol: HTTP}]
`

// A proxy with a Gateway's token receives that Gateway's configuration, even if the proxy requests
// another Gateway's. Without a valid token, it receives nothing.
func tokenLimitsProxy(p place) {
	p.apply(chat + plainGateway + others)
	p.programmed("gw")
	p.programmed("other")
	for _, process := range p.processes() {
		ads := process.Status.PodIP + ":18000"
		for gateway, own := range map[string]string{"gw": "/chat", "other": "/hidden"} {
			p.Until("the process serves the Gateway", func(context.Context) error {
				_, err := p.ask(ads, p.token(gateway+"-penstock", "penstock.dev"), resource.Cluster)
				return err
			})
			curious := xdstest.StartFake(p, xdstest.FakeConfig{
				Address: ads, Node: "curious", Gateway: p.Namespace + "/" + map[string]string{
					"gw": "other", "other": "gw",
				}[gateway],
				Dial: p.as(p.token(gateway+"-penstock", "penstock.dev")),
			})
			curious.Wait("its Gateway's cluster", func() bool {
				return slices.ContainsFunc(curious.Names(resource.Cluster),
					func(name string) bool { return strings.Contains(name, own) })
			})
			curious.Wait("a listener", func() bool { return len(curious.Names(resource.Listener)) > 0 })
			for _, name := range curious.Names(resource.Cluster) {
				if strings.Contains(name, map[string]string{"gw": "/hidden", "other": "/chat"}[gateway]) {
					p.Errorf("a proxy of Gateway %s received %s, want its own clusters alone", gateway, name)
				}
			}
			curious.Disconnect()
		}
		for who, token := range map[string]string{
			"no token":                      "",
			"an invalid token":              "e30.e30.e30",
			"a token for another audience":  p.token("gw-penstock", "vault"),
			"a service account of no fleet": p.token("default", "penstock.dev"),
		} {
			if _, err := p.ask(ads, token, resource.Cluster); status.Code(err) != codes.PermissionDenied {
				p.Errorf("%s: got %v, want PermissionDenied", who, err)
			}
		}
		if _, err := p.pick(process.Status.PodIP+":9002",
			p.token("gw-penstock", "penstock.dev")); status.Code(err) != codes.Unauthenticated {
			p.Errorf("a pick without its key: got %v, want Unauthenticated", err)
		}
		if err := p.follow(process.Status.PodIP + ":18001"); err == nil ||
			!strings.Contains(err.Error(), "certificate required") {
			p.Errorf("the port for other processes, without a certificate: got %v, want certificate required", err)
		}
	}
}

// follow connects, without a certificate, to the port for other processes.
func (p place) follow(address string) error {
	conn, err := tls.DialWithDialer(&net.Dialer{Timeout: 5 * time.Second}, "tcp", address,
		&tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h2"}})
	if err != nil {
		return err
	}
	defer conn.Close()
	_, err = conn.Read(make([]byte, 1)) // a gRPC server sends first
	return err
}

func (p place) ask(address, token string, kind resource.Type, names ...string) (*discoveryv3.DeltaDiscoveryResponse,
	error) {
	return p.askWith(address, p.as(token), kind, names...)
}

func (p place) askWith(address string, who []grpc.DialOption, kind resource.Type,
	names ...string) (*discoveryv3.DeltaDiscoveryResponse, error) {
	conn, err := grpc.NewClient(address, who...)
	if err != nil {
		p.Fatal(err)
	}
	defer conn.Close()
	ctx, cancel := context.WithTimeout(p.Context(), 20*time.Second)
	defer cancel()
	s, err := discoveryv3.NewAggregatedDiscoveryServiceClient(conn).DeltaAggregatedResources(ctx)
	if err != nil {
		return nil, err
	}
	// Recv returns Send's error.
	_ = s.Send(&discoveryv3.DeltaDiscoveryRequest{
		Node: &corev3.Node{Id: "stranger", Cluster: p.Namespace + "/gw"}, TypeUrl: kind.URL(),
		ResourceNamesSubscribe: names,
	})
	return s.Recv()
}

func (p place) pick(address, token string) (*extprocv3.ProcessingResponse, error) {
	conn, err := grpc.NewClient(address, p.as(token)...)
	if err != nil {
		p.Fatal(err)
	}
	defer conn.Close()
	ctx, cancel := context.WithTimeout(p.Context(), 20*time.Second)
	defer cancel()
	s, err := extprocv3.NewExternalProcessorClient(conn).Process(ctx)
	if err != nil {
		return nil, err
	}
	// after EOF, Recv returns the error
	if err := s.Send(&extprocv3.ProcessingRequest{
		Request: &extprocv3.ProcessingRequest_RequestHeaders{RequestHeaders: &extprocv3.HttpHeaders{EndOfStream: true}},
	}); err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	return s.Recv()
}

package bootstrap

import (
	"fmt"
	"path"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	injectorv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/credential_injector/v3"
	upstreamcodecv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/upstream_codec/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	genericv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/http/injected_credentials/generic/v3"
	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
	"sigs.k8s.io/yaml"
)

const (
	secretCA          = "control-plane-ca"
	secretCertificate = "own-certificate"
	secretToken       = "own-token"
)

// SecretFiles returns the files for Config.Secrets, by name. Envoy watches only files that an SDS
// secret names, and SDS needs a file for each secret.
func SecretFiles(c Config) (map[string][]byte, error) {
	if c.Secrets == "" {
		return nil, nil
	}
	if err := c.withDefaults().validate(); err != nil {
		return nil, fmt.Errorf("bootstrap: %w", err)
	}
	secrets := map[string]*tlsv3.Secret{}
	if t := c.TLS; t != nil {
		secrets[secretCA] =
			&tlsv3.Secret{Type: &tlsv3.Secret_ValidationContext{ValidationContext: &tlsv3.CertificateValidationContext{
				TrustedCa: file(t.CA), WatchedDirectory: folderOf(t.CA),
				MatchTypedSubjectAltNames: []*tlsv3.SubjectAltNameMatcher{c.serverName()},
			}}}
		if t.Cert != "" {
			secrets[secretCertificate] =
				&tlsv3.Secret{Type: &tlsv3.Secret_TlsCertificate{TlsCertificate: &tlsv3.TlsCertificate{
					CertificateChain: file(t.Cert), PrivateKey: file(t.Key), WatchedDirectory: folderOf(t.Cert),
				}}}
		}
	}
	if c.Token != "" {
		token := file(c.Token)
		token.WatchedDirectory = folderOf(c.Token)
		secrets[secretToken] = &tlsv3.Secret{
			Type: &tlsv3.Secret_GenericSecret{GenericSecret: &tlsv3.GenericSecret{Secret: token}},
		}
	}
	out := map[string][]byte{}
	for name, secret := range secrets {
		secret.Name = name
		packed, err := anypb.New(secret)
		if err != nil {
			return nil, fmt.Errorf("encode secret %s: %w", name, err)
		}
		json, err := protojson.MarshalOptions{
			UseProtoNames: true,
		}.Marshal(&discoveryv3.DiscoveryResponse{Resources: []*anypb.Any{packed}})
		if err != nil {
			return nil, fmt.Errorf("encode secret %s: %w", name, err)
		}
		if out[name+".yaml"], err = yaml.JSONToYAML(json); err != nil {
			return nil, fmt.Errorf("encode secret %s: %w", name, err)
		}
	}
	return out, nil
}

func file(path string) *corev3.DataSource {
	return &corev3.DataSource{Specifier: &corev3.DataSource_Filename{Filename: path}}
}

// The kubelet replaces a link in this folder, not the file.
func folderOf(file string) *corev3.WatchedDirectory {
	return &corev3.WatchedDirectory{Path: path.Dir(file)}
}

func (c Config) fromFile(name string) *tlsv3.SdsSecretConfig {
	return &tlsv3.SdsSecretConfig{Name: name, SdsConfig: &corev3.ConfigSource{
		ConfigSourceSpecifier: &corev3.ConfigSource_PathConfigSource{PathConfigSource: &corev3.PathConfigSource{
			Path: path.Join(c.Secrets, name+".yaml"),
		}},
		ResourceApiVersion: corev3.ApiVersion_V3,
	}}
}

func (b *builder) tokenFilters(c Config) []*hcmv3.HttpFilter {
	if c.Token == "" {
		return nil
	}
	return []*hcmv3.HttpFilter{
		b.filter("envoy.filters.http.credential_injector", &injectorv3.CredentialInjector{
			Overwrite: true,
			Credential: &corev3.TypedExtensionConfig{Name: "envoy.http.injected_credentials.generic",
				TypedConfig: b.any(&genericv3.Generic{
					Credential: c.fromFile(secretToken), Header: "authorization", HeaderValuePrefix: "Bearer ",
				})},
		}),
		b.filter("envoy.filters.http.upstream_codec", &upstreamcodecv3.UpstreamCodec{}),
	}
}

func (b *builder) filter(name string, config proto.Message) *hcmv3.HttpFilter {
	return &hcmv3.HttpFilter{Name: name, ConfigType: &hcmv3.HttpFilter_TypedConfig{TypedConfig: b.any(config)}}
}

package translator

import (
	"slices"

	"github.com/penstock-project/penstock/discovery/objectid"
	"github.com/penstock-project/penstock/discovery/status/report"
	"github.com/penstock-project/penstock/discovery/store"
	"github.com/penstock-project/penstock/translator/envoy"
	"github.com/penstock-project/penstock/translator/gatewayapi"
	"github.com/penstock-project/penstock/translator/graph"
	"github.com/penstock-project/penstock/translator/inference"
	"github.com/penstock-project/penstock/translator/model"
	"github.com/penstock-project/penstock/xds/resource"
)

func (t *tables) declarePolicyTrusts() {
	t.policyTrusts = graph.Declare(t.engine, graph.Table[string, *model.Secret]{
		Name:    "policyTrusts",
		Order:   order,
		Sources: t.stored(store.BackendTLSPolicies.Kind()),
		Compute: func(r *graph.Reader, key string) (*model.Secret, bool) { return gatewayapi.PolicyTrust(r, key) },
	})
}

func (t *tables) declareSecrets() {
	t.gatewayClustersBySecret = graph.NewIndex(t.gatewayClusters, "secret",
		func(key clusterKey, e encoded) []secretKey { return secretsOf(key.gateway, e) })
	t.peerListenersBySecret = graph.NewIndex(t.peerListeners, "secret",
		func(key peerKey, e encoded) []secretKey { return secretsOf(key.gateway, e) })
	t.presenters = graph.Declare(t.engine, graph.Table[secretKey, []report.Ref]{
		Name:    "presenters",
		Order:   secretKey.compare,
		Sources: []graph.Source[secretKey]{t.gatewaysBySecret},
		Compute: func(r *graph.Reader, key secretKey) ([]report.Ref, bool) {
			g, ok := t.gateways.Get(r, key.gateway)
			if !ok {
				return nil, false
			}
			return presenters(g, key.secret), true
		},
	})
	t.secrets = declareResources(t, graph.Table[secretKey, encoded]{
		Name:    "secrets",
		Order:   secretKey.compare,
		Sources: []graph.Source[secretKey]{t.gatewaysBySecret, t.gatewayClustersBySecret, t.peerListenersBySecret},
		Compute: func(r *graph.Reader, key secretKey) (encoded, bool) {
			secret, ok := t.secret(r, key)
			if !ok {
				return encoded{}, false
			}
			owned := *secret
			if owners, ok := t.presenters.Get(r, key); ok {
				owned.Owners = slices.Concat(owned.Owners, owners)
			}
			return one(envoy.Secret(owned)), true
		},
	})
}

func secretsOf(gateway string, e encoded) (keys []secretKey) {
	for _, res := range e.resources {
		for _, ref := range res.Refs {
			if ref.Type == resource.Secret {
				keys = append(keys, secretKey{gateway, ref.Name})
			}
		}
	}
	return keys
}

func (t *tables) secret(r *graph.Reader, key secretKey) (*model.Secret, bool) {
	name := key.secret
	if name == model.OwnTrust || name == model.OwnKey {
		a, ok := store.Authorities.Get(r, store.OwnAuthority)
		if !ok {
			return nil, false
		}
		owners := []report.Ref{store.Authorities.Ref(a)}
		if name == model.OwnKey {
			return &model.Secret{Name: name, Token: []byte(model.PickKey(a.Key, key.gateway)), Owners: owners}, true
		}
		return &model.Secret{Name: name, CA: a.CA, Owners: owners}, true
	}
	if name == model.MemberCertificate || name == model.MembersTrust {
		return memberSecret(r, name)
	}
	if member, ok := model.ParseMemberTrust(name); ok {
		return memberTrust(r, name, member)
	}
	id, ok := model.ParseSecretID(name)
	if !ok {
		return nil, false
	}
	switch key := objectid.Join(id.Namespace, id.Name); id.Kind {
	case model.PolicyTrustSecret:
		return t.policyTrusts.Get(r, key)
	case model.CredentialSecret:
		return inference.Credential(r, key)
	case model.GatewayTrustSecret:
		return gatewayapi.ClientTrust(r, key, id.Port)
	}
	certificate, problem := gatewayapi.Certificate(r, id.Namespace, id.Name)
	return certificate, problem == ""
}

func presenters(g *model.Gateway, secret string) (out []report.Ref) {
	if g.Certificate == secret {
		out = append(out, g.Ref)
	}
	for _, l := range g.Listeners {
		if slices.Contains(l.Secrets, secret) {
			out = append(out, l.Owner)
		}
	}
	return out
}

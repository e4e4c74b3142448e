package gatewayapi

import (
	"cmp"
	"math"
	"math/big"
	"slices"

	"github.com/penstock-project/penstock/translator/model"
)

type share struct {
	weight            uint32
	backend           string   // store.TargetKey of the backend
	targets           []Target // empty: unresolved; if no Share is above 0, weight is 0
	clusters          []model.ClusterID
	hops              []model.HopID
	members           *Members
	request, response model.HeaderChanges
	rewriteHost       string
	own               *model.OwnFilters
}

// weigh converts the weights of a rule's backendRefs, and the shares within them, into exact
// weights of Envoy clusters. An unresolved backend keeps its share, without a cluster, and answers
// 500. An import with several exporting clusters becomes one cluster of hops to them.
func weigh(shares []share) []model.WeightedBackend {
	var out []model.WeightedBackend
	var parts []*big.Rat
	for _, s := range shares {
		targets := slices.DeleteFunc(slices.Clone(s.targets), func(t Target) bool { return t.Share == 0 })
		if len(s.targets) == 0 {
			targets = []Target{{Share: 1}}
		}
		if s.weight == 0 || len(targets) == 0 {
			continue
		}
		if m := s.members; m != nil && len(s.targets) > 0 {
			one := s.to(Target{Cluster: m.Cluster})
			one.Spills, one.Order, one.Picker, one.RetryOn = m.Spills, m.Order, m.Chooser, m.RetryOn
			for _, t := range targets {
				behind := s.to(t)
				behind.Weight = 1
				one.Members = append(one.Members, behind)
			}
			out, parts = append(out, one), append(parts, new(big.Rat).SetInt64(int64(s.weight)))
			continue
		}
		var sum int64
		for _, t := range targets {
			sum += int64(t.Share)
		}
		for _, t := range targets {
			out = append(out, s.to(t))
			part := new(big.Rat).SetFrac64(int64(t.Share), sum)
			parts = append(parts, part.Mul(part, new(big.Rat).SetInt64(int64(s.weight))))
		}
	}
	for i, w := range integers(parts, math.MaxUint32) {
		out[i].Weight = w
	}
	return out
}

func (s *share) to(t Target) model.WeightedBackend {
	return model.WeightedBackend{
		Cluster: t.Cluster, Backend: s.backend, Picker: t.Picker, Hops: t.Hops, External: t.External,
		MaxGateways: t.MaxGateways, Peer: t.Peer, Hop: t.Hop,
		RequestHeaders: s.request, ResponseHeaders: s.response, RewriteHost: cmp.Or(t.Hostname, s.rewriteHost),
		Own: s.own,
	}
}

// integers returns integers in the proportions of parts. If the exact integers add up to more than
// `most`, the result adds up to `most` (largest-remainder method).
func integers(parts []*big.Rat, most int64) []uint32 {
	out := make([]uint32, len(parts))
	scale := big.NewInt(1)
	sum := new(big.Rat)
	for _, p := range parts {
		gcd := new(big.Int).GCD(nil, nil, scale, p.Denom())
		scale.Mul(scale, new(big.Int).Quo(p.Denom(), gcd))
		sum.Add(sum, p)
	}
	limit := new(big.Rat).SetInt64(most)
	factor := new(big.Rat).SetInt(scale)
	if new(big.Rat).Mul(sum, factor).Cmp(limit) > 0 {
		factor.Quo(limit, sum)
	}
	remainders := make([]*big.Rat, len(parts))
	order := make([]int, len(parts))
	left := new(big.Rat).Mul(sum, factor)
	for i, p := range parts {
		exact := new(big.Rat).Mul(p, factor)
		whole := new(big.Int).Quo(exact.Num(), exact.Denom())
		out[i] = uint32(whole.Uint64())
		order[i] = i
		remainders[i] = exact.Sub(exact, new(big.Rat).SetInt(whole))
		left.Sub(left, new(big.Rat).SetInt(whole))
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(0, remainders[a].Cmp(remainders[b])) })
	missing := new(big.Int).Quo(left.Num(), left.Denom())
	for _, i := range order[:int(missing.Int64())] {
		out[i]++
	}
	return out
}

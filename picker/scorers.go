package picker

import (
	"reflect"
	"slices"
	"time"

	"github.com/penstock-project/penstock/manifests/endpointpicker"
	"github.com/penstock-project/penstock/picker/scoring"
)

func (pool *pool) connectScorers(old *pool) error {
	for i, s := range pool.Scorers {
		if old != nil && i < len(old.Scorers) && reflect.DeepEqual(old.Scorers[i], s) {
			pool.scorers = append(pool.scorers, old.scorers[i])
			continue
		}
		var client *scoring.Client
		if len(s.Addresses) > 0 {
			var err error
			if client, err = scoring.NewClient(s.Addresses, s.TLS); err != nil {
				return err
			}
		}
		pool.scorers = append(pool.scorers, client)
	}
	return nil
}

func (pool *pool) closeScorers(now *pool) {
	for _, s := range pool.scorers {
		if s != nil && (now == nil || !slices.Contains(now.scorers, s)) {
			s.Close()
		}
	}
}

func (pool *pool) recordedScores() (external [][]float64, at *time.Time) {
	if len(pool.scorers) == 0 || pool.Plugins == nil {
		return nil, nil
	}
	records := pool.history.list()
	if len(records) == 0 {
		return nil, nil
	}
	given := map[string]map[string]float64{}
	for _, v := range records[0].Verdicts {
		for _, s := range v.Scores {
			if given[s.Plugin] == nil {
				given[s.Plugin] = map[string]float64{}
			}
			given[s.Plugin][v.Address] = s.Score
		}
	}
	for _, in := range pool.Plugins.Scorers {
		if in.Type != endpointpicker.ExternalScorer {
			continue
		}
		scores := make([]float64, len(pool.snapshot.Endpoints))
		for i := range pool.snapshot.Endpoints {
			scores[i] = given[in.Name][pool.snapshot.Endpoints[i].Text]
		}
		external = append(external, scores)
	}
	return external, &records[0].Time
}

package picker

import (
	"slices"
	"time"
)

// stay reads a request's session, and the cluster of the import that it is at; 0 and "" without.
func (pool *pool) stay(header func(string) []byte, now time.Time) (session uint64, cluster string) {
	if pool.stays == nil {
		return 0, ""
	}
	session = pool.sessionID(header)
	return session, pool.stays.Find(session, now, pool.SessionTTL)
}

// keepStay records that a session has a request in a cluster, for all processes.
func (p *Picker) keepStay(pool *pool, session uint64, cluster string) {
	if pool.stays != nil && pool.stays.Keep(session, cluster, time.Now(), pool.SessionTTL) && p.publishSession != nil {
		p.publishSession(Session{Pool: pool.Name, ID: session, Cluster: cluster})
	}
}

// moveStay records that a session is in the cluster behind the hop that served its request. The places where an import spills are none.
func (p *Picker) moveStay(pool *pool, session uint64, served string) {
	if i := slices.IndexFunc(pool.Clusters.List, func(c Cluster) bool { return c.Hop == served }); i >= 0 {
		p.keepStay(pool, session, pool.Clusters.List[i].Name)
	}
}

// learnStay is LearnSession for a cluster. It keeps this process's own text of the name: what a peer sends is long as it likes.
func (pool *pool) learnStay(session uint64, cluster string, on, now time.Time) {
	if pool.stays == nil {
		return
	}
	if i := slices.IndexFunc(pool.Clusters.List, func(c Cluster) bool { return c.Name == cluster }); i >= 0 {
		pool.stays.Learn(session, pool.Clusters.List[i].Name, on, now, pool.SessionTTL)
	}
}

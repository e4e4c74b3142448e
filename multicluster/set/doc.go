// Package set runs this cluster's part in its cluster set: it follows the ClusterSet, exports pools
// to members, and stores members' exports. It connects the packages of multicluster to each other
// and to the process. Follow runs after the commit of a change, so an export has only endpoints
// that local Envoys have, too.
//
// Nothing runs, and no port is open, before a ClusterSet gives this cluster a name. The name is
// fixed until the process ends. Members are served over mTLS only. A failed read or write is a
// finding on the ClusterSet or one log line, and affects nothing else.
package set

package federation

// shortage records that items had no room. Once memory is free, Federation must request them again,
// because the exporter sends unchanged items only once.
type shortage struct {
	need int // size of the smallest dropped item, in bytes; 0: none was dropped
	free int // number of free bytes after the snapshot
	// most is the number of stored pools when a further pool had no room; 0: all pools had room.
	most int
}

func (s *shortage) short(size int) {
	if s.free = 0; s.need == 0 || size < s.need {
		s.need = size
	}
}

// settle records the free memory after a snapshot. Only memory that becomes free later causes a
// request.
func (a *assemblies) settle() {
	a.lack.free = a.share - a.bytes
	if a.lack.most > 0 {
		a.lack.most = len(a.pools)
	}
}

func (a *assemblies) returned() bool {
	s, free := a.lack, a.share-a.bytes
	fits := s.need > 0 && free >= s.need && (s.free < s.need || free-s.free >= s.need)
	return fits || s.most > 0 && len(a.pools) < s.most
}

package federation

// shortage records items that had no room in a member's share. Once there is room, they must be
// requested again, because the exporter sends unchanged parts only once.
type shortage struct {
	need int // size of the smallest item that had no room, in bytes; 0: none
	free int // free bytes after the snapshot
	most int // the number of pools at which another pool had no room; 0: all had room
}

func (s *shortage) short(size int) {
	if s.free = 0; s.need == 0 || size < s.need {
		s.need = size
	}
}

func (s *shortage) crowded(most int) { s.most = most }

// settle records the free room after a snapshot. Only room that is freed later causes a new
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

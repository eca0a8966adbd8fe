// spdx reads an SPDX document in JSON with SPDX's own library, checks that it is whole, and prints what its image contains:
//
//	spdx <DOCUMENT
//
// "name version purl" a line.
package main

import (
	"fmt"
	"os"

	"github.com/spdx/tools-golang/json"
	"github.com/spdx/tools-golang/spdx"
	"github.com/spdx/tools-golang/spdx/v2/common"
	"github.com/spdx/tools-golang/spdxlib"
)

func list() error {
	doc, err := json.Read(os.Stdin)
	if err != nil {
		return err
	}
	if err := spdxlib.ValidateDocument(doc); err != nil {
		return err
	}
	described, err := spdxlib.GetDescribedPackageIDs(doc)
	if err != nil {
		return err
	}
	if len(described) != 1 {
		return fmt.Errorf("the document describes %d packages, not one", len(described))
	}
	packages := map[common.ElementID]*spdx.Package{}
	for _, p := range doc.Packages {
		packages[p.PackageSPDXIdentifier] = p
	}
	for _, r := range doc.Relationships {
		if r.Relationship != common.TypeRelationshipContains || r.RefA.ElementRefID != described[0] {
			continue
		}
		p := packages[r.RefB.ElementRefID]
		if p == nil || len(p.PackageExternalReferences) != 1 {
			return fmt.Errorf("%s: no such package, or not one reference", r.RefB.ElementRefID)
		}
		fmt.Println(p.PackageName, p.PackageVersion, p.PackageExternalReferences[0].Locator)
	}
	return nil
}

func main() {
	if err := list(); err != nil {
		fmt.Fprintln(os.Stderr, "spdx:", err)
		os.Exit(1)
	}
}

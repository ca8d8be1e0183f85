"""Files of jobs: uploads and downloads, free space, signatures of app files."""
